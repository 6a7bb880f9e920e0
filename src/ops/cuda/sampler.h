#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/cuda/draw.h"

namespace decant {

/// Draws the next tokens of a step's rows on the device, with all that a request may ask for; keeps
/// the counts that penalties depend on.
class CudaSampler {
 public:
  struct Limits {
    int32_t max_rows = 0;  ///< Slots are below it.
    int32_t vocab = 0;
  };

  /// Errors: no memory.
  static Expected<CudaSampler> Create(const Limits& limits);

  /// Queues the draws: tokens_out[i] and last_tokens[rows[i].slot] get the token of rows[i].
  /// Where none can be drawn, tokens_out[i] is kNoDraw and the other some token.
  ///   logits: [rows.size(), vocab] fp32, left as they are
  /// Waits only for the upload of the call before the last. Errors: no memory for the prompts of
  /// requests that begin to count tokens.
  Status Draw(const StepDraws& draws, const float* logits, int32_t* last_tokens,
              int32_t* tokens_out, const CudaStream& stream);

  int64_t bytes() const;  ///< Of device memory.

 private:
  struct Upload {
    PinnedBuffer host;
    DeviceBuffer device;
    CudaEvent copied;
    bool used = false;
  };

  CudaSampler() = default;
  Status StartCounts(const StepDraws& draws, const int32_t* prompts, const CudaStream& stream);

  Limits limits_;
  int32_t blocks_ = 0;      ///< Rows that are drawn at a time.
  DeviceBuffer counts_;     ///< TokenCount [max_rows, vocab]
  DeviceBuffer processed_;  ///< fp32 [blocks, vocab]
  DeviceBuffer lists_;      ///< DrawCandidate [blocks, vocab]
  std::array<Upload, 2> uploads_;
  int turn_ = 0;
};

}  // namespace decant
