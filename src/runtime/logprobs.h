#pragma once

#include <cstdint>
#include <span>

#include "sched/step_plan.h"

namespace decant {

/// The log-softmax of a position's raw logits at `chosen`, and at the `top` (>= 0) largest, smaller
/// ids first among equals. Natural logarithms; -inf for a logit that is -inf or NaN, or where none
/// is above -inf.
PositionLogprobs ComputeLogprobs(std::span<const float> logits, Token chosen, int32_t top);

}  // namespace decant
