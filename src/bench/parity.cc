#include "bench/parity.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "bench/score.h"
#include "bench/token_hash.h"

namespace decant {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// What makes two rows answers to the same request.
struct RequestKey {
  std::string workload;
  std::vector<int32_t> prompt_lengths;
  int32_t min_budget;
  int32_t max_budget;
  double scale;
  uint64_t seed;
  std::string load;
  int32_t index;
  uint64_t prompt_hash;
  int32_t repeat;  ///< How many rows before have the rest in common with this one.

  auto Tied() const {
    return std::tie(workload, prompt_lengths, min_budget, max_budget, scale, seed, load, index,
                    prompt_hash, repeat);
  }
  bool operator<(const RequestKey& other) const { return Tied() < other.Tied(); }
};

std::map<RequestKey, const TokenRow*> IndexRows(std::span<const TokenRow> rows) {
  std::map<RequestKey, const TokenRow*> index;
  std::map<RequestKey, int32_t> repeats;
  for (const TokenRow& row : rows) {
    const WorkloadOptions& options = row.run.options;
    RequestKey key{.workload = row.run.workload,
                   .prompt_lengths = options.prompt_lengths,
                   .min_budget = options.min_budget,
                   .max_budget = options.max_budget,
                   .scale = options.scale,
                   .seed = options.seed,
                   .load = row.run.load,
                   .index = row.index,
                   .prompt_hash = row.prompt_hash,
                   .repeat = 0};
    key.repeat = repeats[key]++;
    index.emplace(std::move(key), &row);
  }
  return index;
}

std::optional<Flip> FindFlip(const TokenRow& a, const TokenRow& b) {
  const auto [in_a, in_b] = std::ranges::mismatch(a.tokens, b.tokens);
  if (in_a == a.tokens.end() && in_b == b.tokens.end()) return std::nullopt;
  Flip flip{.a = &a, .b = &b, .position = Narrow<int32_t>(in_a - a.tokens.begin())};
  if (in_a != a.tokens.end()) flip.token_a = *in_a;
  if (in_b != b.tokens.end()) flip.token_b = *in_b;
  return flip;
}

Expected<std::vector<Token>> MakePrompt(const TokenRow& row, std::span<const Token> alphabet) {
  std::vector<Token> prompt =
      MakeWorkItem(row.run.options, static_cast<uint64_t>(row.index), alphabet).prompt;
  if (HashTokens(0, prompt) != row.prompt_hash) {
    return InvalidArgument(
        "the prompt of request {} of '{}' does not come out of this model's vocabulary as it was: "
        "--model must be the model of the run, or one with the same tokenizer",
        row.index, row.run.workload);
  }
  return prompt;
}

std::vector<Token> Join(const std::vector<Token>& prompt, std::span<const Token> tokens) {
  std::vector<Token> all = prompt;
  all.insert(all.end(), tokens.begin(), tokens.end());
  return all;
}

/// The next token behind `tokens`, with the two most likely ones.
GenerateRequest MakeSiteRequest(std::vector<Token> tokens) {
  GenerateRequest request;
  request.prompt = std::move(tokens);
  request.max_new_tokens = 1;
  request.ignore_end_of_text = true;
  request.sampling.logprobs = 2;
  return request;
}

/// Of the part behind the prompt, in a completion of MakeScoringRequest.
double AnswerLogprob(const Completion& completion, size_t prompt_tokens) {
  double sum = 0;
  for (size_t i = prompt_tokens - 1; i < completion.prompt_logprobs.size(); ++i) {
    sum += completion.prompt_logprobs[i].chosen.logprob;
  }
  return sum;
}

MeanError MeanOf(std::span<const double> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0;
  for (const double value : values) sum += value;
  const double mean = sum / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return {.mean = mean,
          .error = values.size() < 2 ? kNan : std::sqrt(squares / (count - 1) / count)};
}

/// Makes the requests that answer what is asked about flips, each once, and reads their answers.
class FlipQuestions {
 public:
  Status Add(const Flip& flip, std::span<const Token> alphabet) {
    DECANT_ASSIGN_OR_RETURN(const std::vector<Token> prompt, MakePrompt(*flip.a, alphabet));
    const std::span common(flip.a->tokens.data(), static_cast<size_t>(flip.position));
    const std::pair site(HashTokens(flip.a->prompt_hash, common),
                         std::pair(flip.token_a, flip.token_b));
    const std::pair answers(HashTokens(flip.a->prompt_hash, flip.a->tokens),
                            HashTokens(flip.b->prompt_hash, flip.b->tokens));
    const auto [site_place, new_site] = sites_.try_emplace(site, requests_.size());
    if (new_site) requests_.push_back(MakeSiteRequest(Join(prompt, common)));
    const auto [answers_place, new_answers] = answers_.try_emplace(answers, requests_.size());
    if (new_answers) {
      requests_.push_back(MakeScoringRequest(Join(prompt, flip.a->tokens), 0));
      requests_.push_back(MakeScoringRequest(Join(prompt, flip.b->tokens), 0));
    }
    asked_.push_back({.site = site_place->second,
                      .answers = answers_place->second,
                      .prompt_tokens = prompt.size(),
                      .new_site = new_site,
                      .new_answers = new_answers});
    return Status();
  }

  std::vector<GenerateRequest> TakeRequests() { return std::move(requests_); }

  std::vector<FlipFinding> Read(std::span<const Completion> completions) const {
    std::vector<FlipFinding> findings;
    for (const Asked& asked : asked_) {
      const std::vector<TokenLogprob>& top = completions[asked.site].logprobs.front().top;
      DECANT_CHECK(top.size() == 2, "{} logits for the gap of two", top.size());
      findings.push_back(
          {.gap = double{top[0].logprob} - top[1].logprob,
           .best = top[0].token,
           .second = top[1].token,
           .new_site = asked.new_site,
           .logprob_a = AnswerLogprob(completions[asked.answers], asked.prompt_tokens),
           .logprob_b = AnswerLogprob(completions[asked.answers + 1], asked.prompt_tokens),
           .new_answers = asked.new_answers});
    }
    return findings;
  }

 private:
  /// Where among the requests the answers about a flip are.
  struct Asked {
    size_t site;
    size_t answers;  ///< A's; B's is the next.
    size_t prompt_tokens;
    bool new_site;
    bool new_answers;
  };
  using Tokens = std::pair<std::optional<Token>, std::optional<Token>>;

  std::map<std::pair<uint64_t, Tokens>, size_t> sites_;
  std::map<std::pair<uint64_t, uint64_t>, size_t> answers_;
  std::vector<GenerateRequest> requests_;
  std::vector<Asked> asked_;
};

}  // namespace

double ParityCount::share() const {
  return requests == 0 ? kNan : static_cast<double>(differ) / static_cast<double>(requests);
}

Parity CompareTokenRows(std::span<const TokenRow> a, std::span<const TokenRow> b) {
  const auto index_a = IndexRows(a);
  const auto index_b = IndexRows(b);
  std::map<int32_t, ParityCount> lengths;
  Parity parity;
  for (const auto& [key, row] : index_a) {
    const auto other = index_b.find(key);
    if (other == index_b.end()) {
      ++parity.only_a;
      continue;
    }
    const std::optional<Flip> flip = FindFlip(*row, *other->second);
    for (ParityCount* count : {&lengths[row->prompt_tokens], &parity.all}) {
      ++count->requests;
      if (flip) ++count->differ;
    }
    if (flip) parity.flips.push_back(*flip);
  }
  parity.only_b = std::ssize(index_b) - parity.all.requests;
  for (const auto& [length, count] : lengths) parity.lengths.push_back({length, count});
  std::ranges::sort(parity.flips, {}, [](const Flip& flip) { return flip.a; });
  return parity;
}

Expected<std::vector<FlipFinding>> JudgeFlips(Engine& engine, std::span<const Token> alphabet,
                                              std::span<const Flip> flips,
                                              const PromptProgress& progress) {
  FlipQuestions questions;
  for (const Flip& flip : flips) DECANT_RETURN_IF_ERROR(questions.Add(flip, alphabet));
  DECANT_ASSIGN_OR_RETURN(const std::vector<Completion> completions,
                          CompleteAll(engine, questions.TakeRequests(), progress));
  return questions.Read(completions);
}

SiteCount CountSites(std::span<const FlipFinding> findings, double near_tie) {
  SiteCount count;
  for (const FlipFinding& finding : findings) {
    if (!finding.new_site) continue;
    ++count.sites;
    if (finding.gap < near_tie) ++count.near_ties;
    if (!(finding.gap <= count.largest_gap) && !std::isnan(count.largest_gap)) {
      count.largest_gap = finding.gap;
    }
  }
  return count;
}

AnswerQuality CompareAnswers(std::span<const Flip> flips, std::span<const FlipFinding> findings) {
  DECANT_CHECK(flips.size() == findings.size());
  AnswerQuality quality;
  std::vector<double> totals;
  std::vector<double> per_token;
  for (size_t i = 0; i < flips.size(); ++i) {
    const FlipFinding& finding = findings[i];
    if (!finding.new_answers) continue;
    const double a = finding.logprob_a / static_cast<double>(flips[i].a->tokens.size());
    const double b = finding.logprob_b / static_cast<double>(flips[i].b->tokens.size());
    ++quality.pairs;
    if (a > b) ++quality.a_higher;
    if (b > a) ++quality.b_higher;
    totals.push_back(finding.logprob_a - finding.logprob_b);
    per_token.push_back(a - b);
  }
  quality.total = MeanOf(totals);
  quality.per_token = MeanOf(per_token);
  return quality;
}

}  // namespace decant
