#pragma once

#include <cstddef>
#include <cstdint>

#include "jinja/failure.h"

namespace decant::jinja {

/// What one rendering may use. Sums over the whole rendering, not peaks, so that they bound the
/// time as well as the memory.
struct RenderLimits {
  int64_t steps = 10'000'000;       ///< Expressions and statements evaluated, values compared.
  size_t work_bytes = 256u << 20;   ///< Bytes of text and values made or searched.
  size_t output_bytes = 64u << 20;  ///< Bytes of the rendered text.
};

/// Counts what a rendering uses and fails when a limit is passed.
class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void Step(int64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) FailLimit("more than {} steps", limits_.steps);
  }

  /// To be called before the bytes are used.
  void Work(size_t bytes) {
    if (bytes > limits_.work_bytes - work_bytes_) {
      FailLimit("more than {} bytes of text and values made", limits_.work_bytes);
    }
    work_bytes_ += bytes;
  }

  void Output(size_t size) const {
    if (size > limits_.output_bytes)
      FailLimit("more than {} bytes of output", limits_.output_bytes);
  }

 private:
  RenderLimits limits_;
  int64_t steps_ = 0;
  size_t work_bytes_ = 0;
};

}  // namespace decant::jinja
