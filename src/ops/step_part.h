#pragma once

#include <cstddef>
#include <string_view>

namespace decant {

/// What a step does, part by part, in the order in which it comes to them.
enum class StepPart {
  kUpload,           ///< Ops::BeginStep: the batch goes to the device, attention is planned.
  kEmbed,            ///< Token embedding.
  kQkv,              ///< RMSNorm, QKV, rotary embedding, K and V to the cache.
  kPromptAttention,  ///< Attention of prompt chunks.
  kDecodeAttention,  ///< Attention of decode tokens.
  kAttention,        ///< Both, where a backend computes them at once.
  kOutput,           ///< O projection and residual.
  kGateUp,           ///< RMSNorm, gate and up, SiLU.
  kDown,             ///< Down projection and residual.
  kHead,             ///< Final RMSNorm and head.
  kSample,           ///< Logits to tokens.
  kDownload,         ///< Tokens to the host.
};
inline constexpr size_t kStepParts = 12;

/// As columns and tables name it: "decode_attention".
std::string_view StepPartName(StepPart part);

}  // namespace decant
