#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ops/cuda/linear_output.h"

namespace decant {

/// What the linear layers of a model follow from.
struct LinearModel {
  std::string_view name;
  int32_t hidden = 0;
  int32_t intermediate = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;
  int32_t head_dim = 0;
  int32_t vocab = 0;
};

/// The models that are served, by the files that their authors publish.
inline constexpr std::array kLinearModels = {
    LinearModel{"smollm2-135m", 576, 1536, 9, 3, 64, 49152},
    LinearModel{"smollm2-360m", 960, 2560, 15, 5, 64, 49152},
    LinearModel{"smollm2-1.7b", 2048, 8192, 32, 32, 64, 49152},
    LinearModel{"qwen2.5-0.5b", 896, 4864, 14, 2, 64, 151936},
    LinearModel{"qwen2.5-1.5b", 1536, 8960, 12, 2, 128, 151936},
    LinearModel{"qwen2.5-3b", 2048, 11008, 16, 2, 128, 151936},
    LinearModel{"qwen2.5-7b", 3584, 18944, 28, 4, 128, 152064},
    LinearModel{"llama-3.2-1b", 2048, 8192, 32, 8, 64, 128256},
    LinearModel{"llama-3.2-3b", 3072, 8192, 24, 8, 128, 128256},
};

/// One of a model's weights.
struct LinearLayer {
  std::string_view name;
  int32_t rows = 0;
  int32_t cols = 0;
  LinearOutput output = LinearOutput::kElement;
};

/// A layer's four, then the head.
inline std::vector<LinearLayer> LinearLayers(const LinearModel& model) {
  const int32_t query_cols = model.heads * model.head_dim;
  return {
      {"qkv", query_cols + 2 * model.kv_heads * model.head_dim, model.hidden, LinearOutput::kFloat},
      {"o", model.hidden, query_cols, LinearOutput::kAdd},
      {"gate_up", 2 * model.intermediate, model.hidden, LinearOutput::kElement},
      {"down", model.hidden, model.intermediate, LinearOutput::kAdd},
      {"head", model.vocab, model.hidden, LinearOutput::kFloat},
  };
}

}  // namespace decant
