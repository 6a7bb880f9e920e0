#include "engine/preset.h"

#include <optional>

#if DECANT_HAS_CUDA
#include "ops/cuda/flash_attention.h"
#endif

namespace decant {
namespace {

constexpr Preset kDecant{"decant", 64, DecodeKernel::kSplit, LinearLayers::kInvariant};
constexpr Preset kFused{"fused", 64, DecodeKernel::kRows, LinearLayers::kLibrary};
constexpr Preset kFlash{"flash", 256, DecodeKernel::kFlash, LinearLayers::kLibrary};
constexpr Preset kPresets[] = {kDecant, kFused, kFlash};

Status FlashUsable() {
#if DECANT_HAS_CUDA
  return FlashAttentionAvailable();
#else
  return Error(StatusCode::kUnimplemented, "this build has no CUDA backend");
#endif
}

/// Why the device has no such kernel, or ok. `flag` and `name` are what the person wrote.
Status CheckKernel(DecodeKernel kernel, const Device& device, std::string_view flag,
                   std::string_view name) {
  if (kernel == DecodeKernel::kFlash) {
    if (device.kind == DeviceKind::kCpu) {
      const Status status = FlashUsable();
      return Error(StatusCode::kUnimplemented,
                   "{} {}: FlashAttention's paged kernel runs on CUDA only, and {}", flag, name,
                   status.ok() ? "the device is the CPU (--device cuda)" : status.message());
    }
    return FlashUsable().WithContext(fmt::format("{} {}", flag, name));
  }
  return {};
}

}  // namespace

Expected<Preset> FindPreset(std::string_view name, const Device& device) {
  for (Preset preset : kPresets) {
    if (preset.name != (name == "auto" ? kDecant.name : name)) continue;
    DECANT_RETURN_IF_ERROR(CheckKernel(preset.decode_kernel, device, "--engine", name));
    // The CPU's library keeps the same promise.
    if (device.kind == DeviceKind::kCpu) preset.linear = LinearLayers::kLibrary;
    return preset;
  }
  return InvalidArgument("--engine is '{}'; allowed: auto, decant, fused, flash (CUDA only)", name);
}

Expected<WeightCopies> FindWeightCopies(std::string_view name) {
  if (name == "keep") return WeightCopies::kKeep;
  if (name == "bf16") return WeightCopies::kBf16;
  return InvalidArgument("--weights is '{}'; allowed: keep, bf16", name);
}

Expected<LinearLayers> FindLinearLayers(std::string_view name, const Device& device) {
  struct Kind {
    std::string_view name;
    LinearLayers layers;
    DeviceKind device;
  };
  static constexpr Kind kKinds[] = {{"cublas", LinearLayers::kLibrary, DeviceKind::kCuda},
                                    {"invariant", LinearLayers::kInvariant, DeviceKind::kCuda},
                                    {"onednn", LinearLayers::kLibrary, DeviceKind::kCpu},
                                    {"int8", LinearLayers::kInt8, DeviceKind::kCpu}};
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    if (kind.device == device.kind) return kind.layers;
    const bool on_cpu = kind.device == DeviceKind::kCpu;
    return Error(StatusCode::kUnimplemented, "--linear {} is for --device {}; {} has {}", name,
                 on_cpu ? "cpu" : "cuda", on_cpu ? "a GPU" : "the CPU",
                 on_cpu ? "cublas, invariant" : "onednn, int8");
  }
  return InvalidArgument(
      "--linear is '{}'; allowed: cublas, invariant (CUDA), onednn, int8 (the CPU)", name);
}

Expected<DecodeKernel> FindDecodeKernel(std::string_view name, const Device& device) {
  const std::optional<DecodeKernel> kernel = ParseDecodeKernel(name);
  if (!kernel) {
    return InvalidArgument("--decode-kernel is '{}'; allowed: rows, split, flash (CUDA only)",
                           name);
  }
  DECANT_RETURN_IF_ERROR(CheckKernel(*kernel, device, "--decode-kernel", name));
  return *kernel;
}

Expected<std::vector<DecodeKernel>> FindDecodeKernels(std::span<const std::string> names,
                                                      const Device& device) {
  std::vector<DecodeKernel> kernels;
  for (const std::string& name : names) {
    DECANT_ASSIGN_OR_RETURN(const DecodeKernel kernel, FindDecodeKernel(name, device));
    kernels.push_back(kernel);
  }
  return kernels;
}

int32_t PresetPageSize(DecodeKernel kernel) {
  for (const Preset& preset : kPresets) {
    if (preset.decode_kernel == kernel) return preset.page_size;
  }
  return kDecant.page_size;
}

}  // namespace decant
