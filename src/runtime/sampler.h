#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sched/step_plan.h"

namespace decant {

/// Draws tokens from logits. Holds scratch only: one for each thread.
///
/// Greedy takes the first of the largest logits. Otherwise, in the order of the reference
/// implementation (Hugging Face transformers): temperature, top-k, top-p, then one uniform number,
/// which is draw `sample_index` of the request's own counter-based sequence, so that a seeded
/// request gives the same tokens whatever runs beside it. Logits that are NaN count as -inf; where
/// none is finite, token 0 is drawn.
class Sampler {
 public:
  Token Sample(std::span<const float> logits, const SamplingParams& params, uint64_t sample_index);

 private:
  std::vector<std::pair<float, Token>> candidates_;  // logit, token
  std::vector<double> weights_;
};

}  // namespace decant
