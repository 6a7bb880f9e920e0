#include "bench/overlap_choice.h"

namespace decant {

std::string_view OverlapName(TimedOverlap overlap) {
  if (!overlap) return "n/a";
  return *overlap == KernelOverlap::kAllowed ? "on" : "off";
}

Expected<std::vector<TimedOverlap>> ChooseOverlaps(const Ops& ops,
                                                   const std::vector<KernelOverlap>& wanted) {
  std::vector<TimedOverlap> chosen(wanted.begin(), wanted.end());
  if (!ops.OverlapsKernels()) {
    if (!wanted.empty()) {
      return InvalidArgument(
          "--overlap: kernels do not overlap on this device, so there is nothing to choose "
          "(CUDA devices of compute capability 9.0 and up overlap them)");
    }
    chosen = {std::nullopt};
  } else if (wanted.empty()) {
    chosen = {KernelOverlap::kAllowed, KernelOverlap::kNone};
  }
  return chosen;
}

}  // namespace decant
