#include "engine/device.h"

#include <fmt/format.h>

#include <charconv>

#include "base/run_header.h"

#if DECANT_HAS_CUDA
#include "ops/cuda/device.h"
#endif

namespace decant {
namespace {

constexpr std::string_view kCuda = "cuda";

/// Ok where CUDA can be used.
Status CudaUsable() {
#if DECANT_HAS_CUDA
  if (CountCudaDevices() > 0) return {};
  return Error(StatusCode::kFailedPrecondition,
               "--device cuda: this machine has no NVIDIA GPU that its driver can use");
#else
  return Error(StatusCode::kUnimplemented, "--device cuda: this build has no CUDA backend");
#endif
}

}  // namespace

Expected<Device> FindDevice(std::string_view name) {
  if (name == "cpu") return Device{};
  if (name == "auto") {
    return CudaUsable().ok() ? Device{.kind = DeviceKind::kCuda} : Device{};
  }
  Device device{.kind = DeviceKind::kCuda};
  bool known = name == kCuda;
  if (name.starts_with("cuda:")) {
    const std::string_view digits = name.substr(kCuda.size() + 1);
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, device.ordinal);
    known = error == std::errc() && stop == end && device.ordinal >= 0;
  }
  if (!known) {
    return InvalidArgument("--device is '{}'; allowed: auto, cpu, cuda, cuda:N (N from 0)", name);
  }
  DECANT_RETURN_IF_ERROR(CudaUsable());
  return device;
}

std::string DeviceName(const Device& device) {
#if DECANT_HAS_CUDA
  if (device.kind == DeviceKind::kCuda) {
    const Expected<CudaDeviceInfo> info = OpenCudaDevice(device.ordinal);
    if (info.ok()) return info->name;
  }
#endif
  if (device.kind == DeviceKind::kCpu) return DescribeMachine().cpu_model;
  return fmt::format("cuda:{}", device.ordinal);
}

}  // namespace decant
