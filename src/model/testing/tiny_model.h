#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "weights/testing/gguf_builder.h"

namespace decant::testing {

/// A small random decoder as a GGUF file, for tests that need all of a model and none of its
/// knowledge.
struct TinyModel {
  /// Or "qwen2", which has QKV biases, or "qwen3", which norms q and k heads.
  std::string family = "llama";
  int32_t layers = 2;
  int32_t hidden = 96;
  int32_t heads = 6;
  int32_t kv_heads = 2;
  int32_t head_dim = 32;
  int32_t intermediate = 160;
  int32_t vocab = 280;  ///< 258 to 283
  int32_t max_positions = 2048;
  bool tied_head = true;
  GgmlType type = GgmlType::kQ8_0;
  uint64_t seed = 1;
  /// A layer whose gate and up weights are so large that their product leaves fp32's range. `type`
  /// must be one that holds such weights: kF32.
  std::optional<int32_t> overflowing_layer{};
};

/// The file, with a byte-level tokenizer of `vocab` tokens: 256 bytes, merges, and one end-of-text
/// token, the last.
GgufBuilder BuildTinyModel(const TinyModel& model);

}  // namespace decant::testing
