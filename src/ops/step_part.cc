#include "ops/step_part.h"

#include <array>

namespace decant {

std::string_view StepPartName(StepPart part) {
  static constexpr std::array<std::string_view, kStepParts> kNames = {
      "upload",  "embed", "qkv",  "prompt_attention", "decode_attention", "attention", "o",
      "gate_up", "down",  "head", "sample",           "download"};
  return kNames[static_cast<size_t>(part)];
}

}  // namespace decant
