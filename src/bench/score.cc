#include "bench/score.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/check.h"

namespace decant {

GenerateRequest MakeScoringRequest(std::vector<Token> tokens, int32_t top) {
  GenerateRequest request;
  request.prompt = std::move(tokens);
  request.max_new_tokens = 1;
  request.ignore_end_of_text = true;
  request.sampling.prompt_logprobs = top;
  return request;
}

double TextScore::sum() const {
  double sum = 0;
  for (const float logprob : logprobs) sum += logprob;
  return sum;
}

double TextScore::perplexity() const {
  return std::exp(-sum() / static_cast<double>(logprobs.size()));
}

double TextScore::bits_per_byte() const {
  return -sum() / std::numbers::ln2 / static_cast<double>(bytes);
}

double LargestDifference(const TextScore& a, const TextScore& b) {
  DECANT_CHECK(a.logprobs.size() == b.logprobs.size(), "{} and {} tokens", a.logprobs.size(),
               b.logprobs.size());
  double largest = 0;
  for (size_t i = 0; i < a.logprobs.size(); ++i) {
    const double difference = std::abs(double{a.logprobs[i]} - b.logprobs[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

Expected<TextScore> ScoreTokens(Engine& engine, const Tokenizer& tokenizer,
                                std::span<const Token> tokens, int32_t window,
                                const PromptProgress& progress) {
  DECANT_CHECK(window >= 2, "a window of {}", window);
  std::vector<GenerateRequest> requests;
  std::vector<std::vector<Token>> pieces;
  const size_t step = static_cast<size_t>(window) - (tokenizer.add_bos() ? 1 : 0);
  for (size_t first = 0; first < tokens.size(); first += step) {
    const auto part = tokens.subspan(first, std::min(step, tokens.size() - first));
    std::vector<Token> piece(part.begin(), part.end());
    if (tokenizer.add_bos()) piece.insert(piece.begin(), *tokenizer.bos());
    if (piece.size() < 2) continue;
    requests.push_back(MakeScoringRequest(piece, 0));
    pieces.push_back(std::move(piece));
  }
  if (pieces.empty()) {
    return InvalidArgument("the text has {} tokens: none stands behind another", tokens.size());
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<Completion> completions,
                          CompleteAll(engine, std::move(requests), progress));
  TextScore score;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const std::vector<PositionLogprobs>& logprobs = completions[i].prompt_logprobs;
    DECANT_CHECK(logprobs.size() + 1 == pieces[i].size(), "{} of {} tokens were scored",
                 logprobs.size(), pieces[i].size());
    for (const PositionLogprobs& position : logprobs) {
      score.logprobs.push_back(position.chosen.logprob);
      score.bytes += std::ssize(tokenizer.TokenBytes(position.chosen.token));
    }
  }
  return score;
}

}  // namespace decant
