#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/status.h"
#include "engine/compute_type.h"
#include "engine/device.h"
#include "model/decoder_weights.h"
#include "ops/ops.h"
#include "ops/prompt_kernel.h"
#include "runtime/logits_observer.h"
#include "runtime/step_runner.h"

namespace decant {

/// What a backend is told when it is made.
struct BackendOptions {
  Device device;
  ComputeType compute_type = ComputeType::kAuto;
  DecoderShape shape;
  DecodeKernel decode_kernel = DecodeKernel::kSplit;
  PromptKernel prompt_kernel = PromptKernel::kOwn;
  LinearLayers linear = LinearLayers::kLibrary;
  WeightCopies weight_copies = WeightCopies::kKeep;
  int32_t threads = 1;
  int32_t max_tokens = 0;   ///< Tokens of one step at most.
  int32_t max_rows = 0;     ///< Rows of one step at most.
  int32_t max_samples = 0;  ///< Tokens of one NormHead at most.
  int32_t max_model_len = 0;
  bool graphs = true;  ///< On CUDA: whether steps may be launched as graphs.
};

/// Decorates operations; empty: they are used as they are. For gates.
using OpsWrapper =
    std::function<std::unique_ptr<Ops>(std::unique_ptr<Ops> ops, const DecoderShape& shape)>;

/// A device's operations and what runs steps with them.
class Backend {
 public:
  virtual ~Backend() = default;

  /// The operations, wrapped if a wrapper was given.
  virtual Ops& ops() = 0;

  /// Bytes of memory that the pool may have where nobody says so: `utilization` of the device's
  /// memory less what is in use, or a small fixed amount on the CPU.
  virtual Expected<int64_t> DefaultPoolBytes(double utilization) const = 0;

  /// Bytes beside weights and pool; 0: not worth telling.
  virtual int64_t workspace_bytes() const = 0;

  /// Once weights and cache are there. `weights` must outlive the runner, the runner not the
  /// backend.
  virtual Expected<std::unique_ptr<StepRunner>> MakeRunner(const DecoderWeights& weights,
                                                           LogitsObserver observer) = 0;
};

/// The operations alone, for benches and gates that run no model. Errors: the device cannot be
/// used, lacks memory, or does not take the shape, the compute type or the decode kernel.
Expected<std::unique_ptr<Ops>> MakeOps(const BackendOptions& options);

/// Errors: as MakeOps.
Expected<std::unique_ptr<Backend>> MakeBackend(const BackendOptions& options,
                                               const OpsWrapper& wrapper);

}  // namespace decant
