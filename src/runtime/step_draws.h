#pragma once

#include "ops/cuda/draw.h"
#include "sched/step_plan.h"

namespace decant {

/// Adds the draw of a row that samples to those of its step.
void AddDraw(const PlannedRow& row, StepDraws& draws);

}  // namespace decant
