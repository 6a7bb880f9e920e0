#include "engine/compute_type.h"

#include <fmt/format.h>

namespace decant {

Expected<ComputeType> FindComputeType(std::string_view name) {
  if (name == "auto") return ComputeType::kAuto;
  if (name == "fp16") return ComputeType::kF16;
  if (name == "bf16") return ComputeType::kBf16;
  return InvalidArgument("--dtype is '{}'; allowed: auto, fp16, bf16", name);
}

ChosenType ChooseComputeType(ComputeType asked, const Device& device, const ModelConfig& config) {
  if (asked != ComputeType::kAuto) return {.type = asked, .reason = "--dtype asks for it"};
  if (device.kind == DeviceKind::kCpu) return {};
  if (config.stored_type == "bfloat16") {
    return {
        .type = ComputeType::kBf16,
        .reason = "the model's files say that it was made in bfloat16 (--dtype fp16 overrides)"};
  }
  if (config.family == "qwen2") {
    return {.type = ComputeType::kBf16,
            .reason = fmt::format("activations of {} models are known to leave fp16's range "
                                  "(--dtype fp16 overrides)",
                                  config.family)};
  }
  return {.type = ComputeType::kF16,
          .reason = "nothing is known against it (--dtype bf16 overrides)"};
}

}  // namespace decant
