#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace decant {

enum class DeviceKind { kCpu, kCuda };

/// Where a model computes.
struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int32_t ordinal = 0;  ///< Which GPU.
};

/// The device that --device names: "auto" (the first GPU if this build and this machine have one,
/// else the processor), "cpu", "cuda", "cuda:N". Errors: another name, with the allowed ones; cuda
/// in a build without it or on a machine without a GPU.
Expected<Device> FindDevice(std::string_view name);

/// The processor or the GPU by its model, for rows of results: "NVIDIA H200".
std::string DeviceName(const Device& device);

}  // namespace decant
