#pragma once

#include <string_view>

#include "base/status.h"
#include "bench/workload.h"

namespace decant {

/// The options behind a workload's name as rows of results have it: "mixed seed 3", "p256", either
/// with " scale 0.5" behind it. Errors: data loss, for another name.
Expected<WorkloadOptions> ParseWorkloadName(std::string_view name);

/// The first `count` requests of it; tokens are all 0.
Expected<Workload> NamedWorkloadOf(std::string_view name, int32_t count);

}  // namespace decant
