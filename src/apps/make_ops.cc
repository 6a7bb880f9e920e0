#include "apps/make_ops.h"

#include <algorithm>
#include <thread>

#include "engine/backend.h"

namespace decant {

OpsFactory MakeOpsFactory(const Device& device, ComputeType compute_type, int32_t threads) {
  return [=](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    if (threads < 0 || threads > 1024) {
      return InvalidArgument("--threads is {}; allowed: 0 (one for each processor) to 1024",
                             threads);
    }
    const auto processors = static_cast<int32_t>(std::thread::hardware_concurrency());
    return MakeOps({.device = device,
                    .compute_type = compute_type,
                    .shape = spec.shape,
                    .decode_kernel = spec.decode_kernel,
                    .prompt_kernel = spec.prompt_kernel,
                    .linear = spec.linear,
                    .threads = threads > 0 ? threads : std::max(1, processors),
                    .max_tokens = spec.max_tokens,
                    .max_rows = spec.max_rows,
                    .max_samples = spec.max_samples,
                    .max_model_len = spec.shape.max_positions});
  };
}

}  // namespace decant
