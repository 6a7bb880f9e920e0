#pragma once

#include <cstdint>

#include "engine/compute_type.h"
#include "engine/device.h"
#include "ops/ops_factory.h"

namespace decant {

/// Operations for arbitrary shapes on a device, with `threads` host threads; 0: one for each
/// processor. Making them fails where the device does not take the shape or the compute type.
OpsFactory MakeOpsFactory(const Device& device, ComputeType compute_type, int32_t threads);

}  // namespace decant
