#include "ops/ops.h"

namespace decant {

std::span<const DecodeKernel> AllDecodeKernels() {
  static constexpr DecodeKernel kAll[] = {DecodeKernel::kRows, DecodeKernel::kSplit};
  return kAll;
}

std::optional<DecodeKernel> ParseDecodeKernel(std::string_view name) {
  if (name == "rows") return DecodeKernel::kRows;
  if (name == "split") return DecodeKernel::kSplit;
  return std::nullopt;
}

std::string_view DecodeKernelName(DecodeKernel kernel) {
  return kernel == DecodeKernel::kRows ? "rows" : "split";
}

}  // namespace decant
