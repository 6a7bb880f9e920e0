#pragma once

#include <span>
#include <vector>

#include "ops/ops.h"
#include "runtime/packed_batch.h"
#include "sched/step_plan.h"

namespace decant {

/// Whether a token can be drawn from a row's logits: none of them is NaN or +infinity. (-infinity
/// is how a model says never.)
bool CanDraw(std::span<const float> logits);

/// For a row from whose logits no token can be drawn.
RequestFailure NoDraw(const PlannedRow& row);

/// What the operations found in the step's activations, by request: the first that is said of a
/// request is where it began. `packed` holds `plan`.
std::vector<RequestFailure> FailuresOf(const StepPlan& plan, const PackedBatch& packed,
                                       std::span<const ActivationFault> faults);

}  // namespace decant
