#pragma once

#include <cstdint>

namespace decant {

/// Bytes a second that `threads` threads together read from memory: the best of `passes` passes
/// over `bytes` of memory, more than any cache should hold.
double MeasureReadBandwidth(int32_t threads, int64_t bytes = int64_t{512} << 20,
                            int32_t passes = 5);

}  // namespace decant
