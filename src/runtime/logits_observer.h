#pragma once

#include <functional>

#include "sched/step_plan.h"
#include "tensor/tensor_view.h"

namespace decant {

/// Told of each step's logits [samples, vocab] in host memory, in plan order of the rows that
/// sample, before the step's tokens are known outside; for gates and tests.
using LogitsObserver = std::function<void(const StepPlan& plan, TensorView logits)>;

}  // namespace decant
