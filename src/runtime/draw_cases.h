#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "base/random.h"
#include "sched/step_plan.h"

namespace decant {

/// Requests whose draws the device's sampler must take as the host's does: each way of sampling by
/// itself and all together.
inline std::vector<SamplingParams> DrawCases(int32_t vocab) {
  std::vector<SamplingParams> cases(1);  // greedy
  for (const float temperature : {0.3F, 1.0F, 7.0F}) {
    for (const int32_t top_k : {0, 1, 3, 50, vocab - 1, vocab}) {
      for (const float top_p : {1.0F, 0.95F, 0.5F, 1e-6F}) {
        cases.push_back({.temperature = temperature, .top_k = top_k, .top_p = top_p});
      }
    }
  }
  for (const float min_p : {0.01F, 0.3F, 1.0F}) {
    cases.push_back({.temperature = 1, .min_p = min_p});
    cases.push_back({.temperature = 2, .top_k = 40, .top_p = 0.9F, .min_p = min_p});
  }
  const LogitBias bias = {{0, 3}, {5, -100}, {vocab - 1, 100}};
  const size_t plain = cases.size();
  for (size_t i = 0; i < plain; i += 7) {
    SamplingParams penalized = cases[i];
    penalized.repetition_penalty = 1.3F;
    penalized.frequency_penalty = 0.7F;
    penalized.presence_penalty = -0.4F;
    cases.push_back(penalized);
    penalized.logit_bias = std::make_shared<const LogitBias>(bias);
    penalized.min_tokens = 3;
    cases.push_back(penalized);
  }
  for (size_t i = 0; i < cases.size(); ++i) cases[i].seed = 1000 + i;
  return cases;
}

/// Logits of several makes: like a model's, flat, all alike, with ties, with what is no number.
inline std::vector<std::vector<float>> DrawLogits(int32_t vocab) {
  const CounterRng rng(7);
  std::vector<std::vector<float>> rows(5, std::vector<float>(vocab));
  for (int32_t i = 0; i < vocab; ++i) {
    const double normal = std::sqrt(-2 * std::log(rng.Uniform(2 * i) + 1e-300)) *
                          std::cos(6.283185307179586 * rng.Uniform(2 * i + 1));
    rows[0][i] = static_cast<float>(4 * normal);
    rows[1][i] = static_cast<float>(0.01 * normal);
    rows[2][i] = 1.5F;
    rows[3][i] = static_cast<float>(std::round(normal));
    rows[4][i] = rows[0][i];
  }
  rows[4][3] = std::numeric_limits<float>::quiet_NaN();
  rows[4][4] = -std::numeric_limits<float>::infinity();
  rows[4][5] = std::numeric_limits<float>::quiet_NaN();
  return rows;
}

}  // namespace decant
