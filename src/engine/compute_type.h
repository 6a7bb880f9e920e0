#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/device.h"
#include "model/model_config.h"

namespace decant {

/// Types that a backend may compute in.
enum class ComputeType { kAuto, kF16, kBf16 };

/// "auto", "fp16" or "bf16", for --dtype.
Expected<ComputeType> FindComputeType(std::string_view name);

struct ChosenType {
  ComputeType type = ComputeType::kAuto;
  std::string reason{};  ///< For people; empty where nothing was chosen.
};

/// What kAuto stands for. On a GPU: bf16 where the file says that the model was made in it, and for
/// families whose activations are known to leave fp16's range (its largest number is 65504); else
/// fp16, whose numbers are finer. On the CPU it stays as it is: the processor decides.
///
/// Known are qwen2 (and so Qwen2.5): its makers say that fp16 overflows, and to run it in bf16
/// (https://github.com/QwenLM/Qwen3/issues/868, .../761). Others that vLLM refuses in fp16
/// (gemma2, gemma3, glm4, plamo2: _FLOAT16_NOT_SUPPORTED_MODELS in vllm/config) are none of our
/// families.
ChosenType ChooseComputeType(ComputeType asked, const Device& device, const ModelConfig& config);

}  // namespace decant
