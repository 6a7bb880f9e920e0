#include "runtime/step_draws.h"

#include "base/random.h"
#include "runtime/logit_processors.h"

namespace decant {

void AddDraw(const PlannedRow& row, StepDraws& draws) {
  const SamplingParams& params = row.sampling;
  RowDraw draw{.slot = row.row,
               .temperature = params.temperature,
               .top_k = params.top_k,
               .top_p = params.top_p,
               .min_p = params.min_p,
               .uniform = CounterRng(params.seed).Uniform(row.sample_index),
               .repetition_penalty = params.repetition_penalty,
               .frequency_penalty = params.frequency_penalty,
               .presence_penalty = params.presence_penalty,
               .penalizes = params.penalizes(),
               .first_bias = static_cast<int32_t>(draws.biases.size()),
               .biases = 0,
               .first_banned = static_cast<int32_t>(draws.banned.size()),
               .banned = 0};
  if (params.logit_bias) {
    for (const auto& [token, bias] : *params.logit_bias) draws.biases.push_back({token, bias});
    draw.biases = static_cast<int32_t>(params.logit_bias->size());
  }
  if (AwaitsMinTokens(params, row.sample_index)) {
    draws.banned.insert(draws.banned.end(), row.stop_tokens.begin(), row.stop_tokens.end());
    draw.banned = static_cast<int32_t>(row.stop_tokens.size());
  }
  if (draw.penalizes && row.sample_index == 0) {
    draws.starts.push_back({.slot = row.row, .prompt = row.prompt});
  }
  draws.rows.push_back(draw);
}

}  // namespace decant
