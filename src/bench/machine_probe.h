#pragma once

#include <cstdint>

namespace decant {

/// What this machine can do at best, measured; the floors of step times come from it.
struct MachineRates {
  double bytes_per_second = 0;       ///< Reading memory.
  double operations_per_second = 0;  ///< Of a large matrix product; a multiply-add counts two.

  /// The least time for a step: what it reads and what it computes may overlap, so the longer one.
  double FloorSeconds(double bytes, double operations) const;
};

/// Bytes a second that `threads` threads together read from memory: the best of `passes` passes
/// over `bytes` of memory, more than any cache should hold.
double MeasureReadBandwidth(int32_t threads, int64_t bytes = int64_t{512} << 20,
                            int32_t passes = 5);

}  // namespace decant
