#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/forwarding_ops.h"

namespace decant {

/// Looks at what each operation of a step's layers leaves, and tells by TakeFaults which tokens'
/// activations are no finite numbers, and since which layer and operation. K and V are not looked
/// at themselves: where they left their type's range, attention shows it.
class CheckFiniteOps : public ForwardingOps {
 public:
  explicit CheckFiniteOps(std::unique_ptr<Ops> inner);

  void BeginStep(const StepBatch& batch) override;
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override;
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override;
  void Attention(int32_t layer, TensorView queries, TensorView attended) override;
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override;
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override;
  std::vector<ActivationFault> TakeFaults() override;

 private:
  std::unique_ptr<FiniteScan> scan_;
  int32_t place_ = 0;  ///< How many operations the step had: which one comes next.
};

}  // namespace decant
