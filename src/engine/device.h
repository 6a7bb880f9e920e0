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

/// What rows of results call it: "cpu", or the GPU's name, such as "NVIDIA H200".
std::string DeviceName(const Device& device);

/// Types that a backend may compute in.
enum class ComputeType { kAuto, kF16, kBf16 };

/// "auto", "fp16" or "bf16", for --dtype.
Expected<ComputeType> FindComputeType(std::string_view name);

}  // namespace decant
