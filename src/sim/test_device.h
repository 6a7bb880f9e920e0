#pragma once

#include "sim/step_time_model.h"

namespace decant {

/// For tests: a device on which a step takes 1 ms of the host and 2 ms of linear layers up to 8
/// tokens, 4 ms for 16; attention is free.
inline StepTimeParameters TestDevice(bool one_step_in_flight) {
  StepTimeParameters device{.device = "test", .one_step_in_flight = one_step_in_flight};
  device.host_seconds = 1e-3;
  device.linear = {{.tokens = 8, .seconds = 2e-3}, {.tokens = 16, .seconds = 4e-3}};
  device.multiprocessors = 132;
  device.kv_heads = 2;
  device.decode = {{.kernel = SimulatedKernel::kRows},
                   {.kernel = SimulatedKernel::kFlash},
                   {.kernel = SimulatedKernel::kSplit}};
  return device;
}

inline StepTimeModel TestModel(bool one_step_in_flight) {
  return StepTimeModel::Create(TestDevice(one_step_in_flight), SimulatedKernel::kRows, 64).value();
}

}  // namespace decant
