#include "ops/ops.h"

#include "base/clock.h"

namespace decant {

std::span<const DecodeKernel> AllDecodeKernels() {
  static constexpr DecodeKernel kAll[] = {DecodeKernel::kRows, DecodeKernel::kSplit,
                                          DecodeKernel::kFlash};
  return kAll;
}

std::optional<DecodeKernel> ParseDecodeKernel(std::string_view name) {
  for (const DecodeKernel kernel : AllDecodeKernels()) {
    if (DecodeKernelName(kernel) == name) return kernel;
  }
  return std::nullopt;
}

std::string_view DecodeKernelName(DecodeKernel kernel) {
  switch (kernel) {
    case DecodeKernel::kRows:
      return "rows";
    case DecodeKernel::kSplit:
      return "split";
    case DecodeKernel::kFlash:
      return "flash";
  }
  return "unknown";
}

Expected<std::vector<double>> Ops::MeasureSeconds(const std::function<void()>& calls,
                                                  int32_t repeats, KernelOverlap /*overlap*/) {
  calls();
  std::vector<double> seconds;
  for (int32_t i = 0; i < repeats; ++i) {
    const Stopwatch watch;
    calls();
    seconds.push_back(watch.Seconds());
  }
  return seconds;
}

RowSource RandomRowSource(int64_t rows, int64_t cols, const RandomRows& random) {
  return {.rows = rows,
          .cols = cols,
          .read =
              [random, cols](int64_t first, int64_t count, float* out) {
                for (int64_t i = 0; i < count * cols; ++i) {
                  out[i] = random.Value(static_cast<uint64_t>(first * cols + i));
                }
              },
          .random = random};
}

}  // namespace decant
