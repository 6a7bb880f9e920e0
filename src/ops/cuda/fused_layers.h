#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/invariant_linear.h"
#include "ops/cuda/linear.h"
#include "ops/cuda/linear_finish.h"
#include "ops/cuda/step_arrays.h"
#include "ops/ops.h"

namespace decant {

/// A weight of the invariant linear layers.
class CudaPackedWeight : public LinearWeight {
 public:
  explicit CudaPackedWeight(PackedWeight packed) : weight(std::move(packed)) {}
  int64_t bytes() const override { return static_cast<int64_t>(weight.buffer.size()); }

  const PackedWeight weight;
};

/// Whether tokens are 0, 1, 2, ….
bool AreFirst(std::span<const int32_t> tokens);

/// A decoder's layers by the invariant linear layers, each product with what is around it in one
/// launch: norms are factors of tokens, their gains are in the weights, and whoever writes the
/// residual also writes it as products read it. Calls queue work on the stream and do not wait,
/// unless they say so. Errors: what CUDA says.
class FusedLayers {
 public:
  struct Options {
    CudaType type = CudaType::kF16;
    int device = 0;  ///< the calling thread's
    DecoderShape shape;
    int32_t max_tokens = 0;   ///< of a step
    int32_t max_samples = 0;  ///< of one Head
  };
  /// `stream` and the residual [max_tokens, hidden], fp32, must outlive the object.
  static Expected<std::unique_ptr<FusedLayers>> Create(const Options& options,
                                                       const CudaStream& stream, float* residual);

  std::string Describe() const { return linear_->Describe(); }
  int64_t workspace_bytes() const;
  InvariantLinear& linear() { return *linear_; }

  /// What a weight is for.
  enum class Use : uint8_t { kQkv, kGateUp, kProjection, kHead };
  /// Packs a weight that was uploaded with the gains of its norm in it, and keeps in mind that it
  /// is there. Waits.
  Expected<std::unique_ptr<LinearWeight>> Pack(const CudaWeight& weight, Use use);
  /// Chooses by measurement how products are computed. Waits for the device.
  Status Tune();

  /// residual = rows of the table.
  Status Embed(const CudaWeight& table, const StepArrays& step, const int32_t* last_tokens);
  /// To be called when something else has written the residual.
  Status TakeResidual(int32_t tokens);
  /// Queries to `queries`, K and V to their slots.
  Status Qkv(const LinearWeight& weight, const QkvPlaces& places, int32_t tokens, void* queries);
  /// The products alone, fp32 [tokens, rows], in the rows' own order: where heads are normed, which
  /// takes whole heads.
  Status QkvSums(const LinearWeight& weight, int32_t tokens, float* sums);
  /// residual += input * weight^T.
  Status ProjectAdd(const LinearWeight& weight, const void* input, int32_t tokens);
  Status GateUpSilu(const LinearWeight& weight, int32_t tokens, void* out);
  /// Logits [listed.size(), vocab] of some of the step's tokens.
  Status Head(const LinearWeight& weight, std::span<const int32_t> listed, float* logits);
  /// Their first largest logits, by LaunchArgmax's rules, without writing any logits.
  Status HeadTokens(const LinearWeight& weight, std::span<const int32_t> listed,
                    std::span<const int32_t> slots, int32_t* last_tokens, int32_t* tokens_out);
  /// Those of the step's first step.counts->draws.samples tokens, `tokens` at most, by
  /// LaunchArgmaxOfFirst.
  Status HeadFirstTokens(const LinearWeight& weight, int32_t tokens, const StepArrays& step,
                         int32_t* last_tokens, int32_t* tokens_out, int32_t turn_stride);

 private:
  /// A form in memory of its own.
  struct FormMemory {
    DeviceBuffer rounded;
    DeviceBuffer squares;

    ResidualForm form() const {
      return {.rounded = rounded.data(), .squares = squares.As<float>()};
    }
    static Expected<FormMemory> Allocate(size_t rounded_bytes, size_t squares_bytes,
                                         std::string_view what);
  };

  FusedLayers(const Options& options, const CudaStream& stream, float* residual)
      : options_(options), stream_(stream), residual_(residual) {}
  LinearInput Normed(const FormMemory& memory) const;
  /// What a product over the listed tokens reads; collects them where need be.
  Expected<LinearInput> NormedOf(std::span<const int32_t> listed);
  int32_t PairDistance(Use use) const;
  Status Run(const LinearWeight& weight, const LinearInput& input, int32_t tokens,
             const ProductResult& result);

  const Options options_;
  const CudaStream& stream_;
  float* const residual_;
  std::unique_ptr<InvariantLinear> linear_;
  FormMemory form_;                               ///< of the residual
  FormMemory sampled_;                            ///< of the tokens that a Head is asked for
  DeviceBuffer parts_;                            ///< ArgmaxPart [max_samples, of a token]
  std::vector<InvariantLinear::TuneCase> cases_;  ///< one for each shape and finish
};

}  // namespace decant
