#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace decant {

/// How a model's rotary embedding (Su et al., "RoFormer", arXiv 2104.09864) was stretched to more
/// positions than it was first trained on.
enum class RopeKind {
  kNone,
  kLinear,    ///< All frequencies divided by one factor (Chen et al., arXiv 2306.15595).
  kLlama3,    ///< Slow ones divided, fast ones kept, a ramp between (The Llama 3 Herd, 2407.21783).
  kYarn,      ///< A ramp over dims and a scale for attention (Peng et al., "YaRN", 2309.00071).
  kDivisors,  ///< Each frequency divided by a number of its own: what GGUF stores for kLlama3.
};

std::string_view RopeKindName(RopeKind kind);

/// The parameters, under the names of transformers' rope_parameters.
struct RopeScaling {
  RopeKind kind = RopeKind::kNone;
  double factor = 1;               ///< Positions now over positions before; 1 or more.
  int32_t original_positions = 0;  ///< original_max_position_embeddings
  double low_freq_factor = 1;      ///< kLlama3
  double high_freq_factor = 4;     ///< kLlama3
  double beta_fast = 32;           ///< kYarn: turns in original_positions from which pairs are kept
  double beta_slow = 1;            ///< kYarn: and up to which they are divided by the factor
  std::optional<double> attention_factor{};  ///< kYarn; else it follows from the factor.
  double mscale = 0;                         ///< kYarn; 0: not given
  double mscale_all_dim = 0;                 ///< kYarn; 0: not given
  bool truncate = true;                      ///< kYarn: the ramp starts and ends at whole pairs.
  std::vector<float> divisors{};             ///< kDivisors: [head_dim / 2]
};

/// What DecoderShape takes.
struct RopeTable {
  std::vector<float> frequencies;  ///< [head_dim / 2], radians per position
  float scale = 1;                 ///< of cosines and sines
};

/// The frequencies for a base (theta) and a head of `head_dim` dims, by the formulas of
/// transformers' modeling_rope_utils.py. Errors name the parameter that is out of range, not the
/// file.
Expected<RopeTable> ComputeRope(float base, int32_t head_dim, const RopeScaling& scaling);

}  // namespace decant
