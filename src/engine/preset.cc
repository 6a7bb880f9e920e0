#include "engine/preset.h"

namespace decant {
namespace {

constexpr Preset kPresets[] = {{"decant", 64, DecodeKernel::kSplit},
                               {"fused", 64, DecodeKernel::kRows}};

Status NeedsCuda(std::string_view flag) {
  return Error(StatusCode::kUnimplemented,
               "{} flash: FlashAttention's paged kernel runs on CUDA only, and this build has no "
               "CUDA backend",
               flag);
}

}  // namespace

Expected<Preset> FindPreset(std::string_view name) {
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset;
  }
  if (name == "flash") return NeedsCuda("--engine");
  return InvalidArgument("--engine is '{}'; allowed: decant, fused, flash (CUDA only)", name);
}

Expected<WeightCopies> FindWeightCopies(std::string_view name) {
  if (name == "keep") return WeightCopies::kKeep;
  if (name == "bf16") return WeightCopies::kBf16;
  return InvalidArgument("--weights is '{}'; allowed: keep, bf16", name);
}

Expected<DecodeKernel> FindDecodeKernel(std::string_view name) {
  if (const auto kernel = ParseDecodeKernel(name)) return *kernel;
  if (name == "flash") return NeedsCuda("--decode-kernel");
  return InvalidArgument("--decode-kernel is '{}'; allowed: rows, split, flash (CUDA only)", name);
}

}  // namespace decant
