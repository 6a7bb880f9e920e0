#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/logit_processors.h"
#include "sched/step_plan.h"

namespace decant {

/// What a draw depends on beside the logits and the parameters.
struct DrawContext {
  /// How many tokens the request drew before: the counter of its random numbers.
  uint64_t sample_index = 0;
  /// The request's whole prompt; read at its first draw.
  std::span<const Token> prompt{};
  /// What min_tokens keeps away.
  std::span<const Token> stop_tokens{};
};

struct TokenProbability {
  Token token = 0;
  double probability = 0;
};

/// Draws the tokens of one request after another. Draw 0 starts a request; the tokens drawn since
/// are remembered where its penalties need them.
///
/// Logits pass ProcessLogits; then greedy takes the first of the largest. Otherwise, in the order
/// of Hugging Face transformers: temperature, top-k, top-p, min-p, each over what the one before
/// left; then one uniform number, which is draw `sample_index` of the request's own counter-based
/// sequence, picks among the tokens that are left in order of their ids, so that a seeded request
/// gives the same tokens whatever runs beside it. Nothing is sorted: the k-th largest logit and the
/// last token inside top_p are found by partial selection.
///
/// Logits that are NaN count as -inf, and so do those of tokens less likely than 1e-45 times the
/// most likely one. Where none is above -inf, token 0 is drawn. (A runner ends the request whose
/// own logits are NaN or +inf: step_failures.h.)
class Sampler {
 public:
  Token Sample(std::span<const float> logits, const SamplingParams& params,
               const DrawContext& context);

  /// The tokens that Sample may draw now, in order of their ids, and how likely each is. Of greedy:
  /// the one token. Counts no token as generated.
  std::vector<TokenProbability> Distribution(std::span<const float> logits,
                                             const SamplingParams& params,
                                             const DrawContext& context);

 private:
  /// A token that may be drawn, and its probability relative to that of the most likely one.
  struct Candidate {
    float weight = 0;
    Token token = 0;
  };

  static bool MoreLikely(const Candidate& a, const Candidate& b);

  std::span<const float> Process(std::span<const float> logits, const SamplingParams& params,
                                 const DrawContext& context);
  void ChooseCandidates(std::span<const float> logits, const SamplingParams& params);
  float KthLargest(std::span<const float> logits, size_t k);
  void KeepTopP(float top_p);
  double TotalWeight() const;

  TokenCounts counts_;
  std::vector<float> processed_;       // the logits, where ProcessLogits changes them
  std::vector<float> largest_;         // KthLargest's
  std::vector<Candidate> candidates_;  // in order of their ids
  std::vector<Candidate> ranked_;      // KeepTopP's
};

}  // namespace decant
