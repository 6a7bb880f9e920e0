#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ops/forwarding_ops.h"
#include "ops/ops_clock.h"
#include "ops/step_part.h"

namespace decant {

/// A stretch of a step.
struct PartInterval {
  StepPart part = StepPart::kUpload;
  double seconds = 0;
};

/// Where a step's time went on the device.
struct StepTimes {
  std::vector<PartInterval> intervals{};  ///< One after another, layer by layer.
  /// Of the pairs of a query and a key that the step's attention multiplies, the share that belongs
  /// to decode tokens.
  double decode_share = 0;

  /// Seconds of all intervals of each part, by StepPart.
  std::array<double, kStepParts> Parts() const;
  double total() const;
};

/// Times the parts of each step by stamps in the order of the device's work, one between two calls,
/// and never waits for the device. Until Start it only passes calls on.
///
/// Start and Stop may be called while no step runs. At most two steps are in flight (StepRunner).
class TimedOps : public ForwardingOps {
 public:
  explicit TimedOps(std::unique_ptr<Ops> inner);

  /// Times the steps that begin from now on.
  void Start();
  /// Times no more; the steps timed since Start, in order.
  std::vector<StepTimes> Stop();

  bool watched() const override { return timing_ || inner().watched(); }
  void BeginStep(const StepBatch& batch) override;
  void Embed(const EmbeddingWeight& embedding, TensorView residual) override;
  void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                         TensorView queries) override;
  void Attention(int32_t layer, TensorView queries, TensorView attended) override;
  void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) override;
  void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) override;
  TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head, TensorView residual,
                      std::span<const int32_t> tokens) override;
  void EndPart(StepPart part) override;

 private:
  /// A step that was begun and whose stamps are not read yet.
  struct Flight {
    std::unique_ptr<OpsClock> clock;
    std::vector<StepPart> parts;  ///< What lies before each stamp but the first.
    double decode_share = 0;
    bool begun = false;
  };

  /// Reads a step's stamps, if it has any.
  void Collect(Flight& flight);
  void End(StepPart part);

  bool timing_ = false;
  std::array<Flight, 2> flights_;          ///< Take turns.
  Flight* now_ = nullptr;                  ///< The step that is being queued.
  std::vector<StepPart> attention_parts_;  ///< Which an Attention call of the step consists of.
  const LinearWeight* output_ = nullptr;   ///< The O projection of the layer at hand.
  std::vector<StepTimes> steps_;
};

}  // namespace decant
