#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/ops.h"

namespace decant {

/// Whether the kernels of a timing could overlap; nothing where the device knows no such thing.
using TimedOverlap = std::optional<KernelOverlap>;

/// "on", "off" or "n/a".
std::string_view OverlapName(TimedOverlap overlap);

/// What a case is timed with: `wanted`, or, where that is empty, on and off on a device that
/// overlaps kernels and nothing once on another. Errors: invalid argument, naming --overlap: wanted
/// of a device that cannot.
Expected<std::vector<TimedOverlap>> ChooseOverlaps(const Ops& ops,
                                                   const std::vector<KernelOverlap>& wanted);

}  // namespace decant
