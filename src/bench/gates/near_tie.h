#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sched/step_plan.h"

namespace decant {

/// When another greedy token is no fault. Two kernels that add the same numbers in another order
/// differ by rounding; where the reference's two best logits are almost equal, that decides which
/// of them wins, and everything after it is another text.
struct NearTieRule {
  /// A flip passes only where the reference's two best logits are less than this apart.
  double gap = 0.02;
  /// How many distinct flip sites may pass.
  int32_t max_sites = 4;
};

/// A place where another token was chosen: the same tokens before it, the same two tokens.
struct FlipSite {
  std::string where{};   ///< The first request that met it.
  int32_t position = 0;  ///< Tokens generated before it.
  Token reference_token = 0;
  Token token = 0;
  double gap = 0;  ///< Between the reference's two best logits.
  double allowed_gap = 0;
  int32_t requests = 0;  ///< That met it; it counts once.

  bool near_tie() const { return gap < allowed_gap; }  // false for NaN
};

/// What the reference generated for a prompt.
struct ReferenceTokens {
  std::span<const Token> prompt{};
  std::span<const Token> tokens{};
  std::span<const float> gaps{};  ///< Per token, between the two best logits that it was chosen by.
};

/// Compares greedy tokens with a reference's, request by request, under the near-tie rule. After a
/// request's first flip its texts are two different ones, so the rest is not compared.
class NearTieJudge {
 public:
  explicit NearTieJudge(const NearTieRule& rule) : rule_(rule) {}

  /// `where` names the request in messages. The rule's gap judges.
  void Compare(std::string_view where, const ReferenceTokens& reference,
               std::span<const Token> tokens) {
    Compare(where, reference, tokens, rule_.gap);
  }
  /// The same with another gap, where the reference says how far apart logits may move.
  void Compare(std::string_view where, const ReferenceTokens& reference,
               std::span<const Token> tokens, double allowed_gap);

  int64_t requests() const { return requests_; }
  int64_t flipped_requests() const { return flipped_requests_; }
  /// Tokens that were compared; those behind a flip were not.
  int64_t tokens() const { return tokens_; }
  double largest_gap() const;
  /// All sites, in order of first sight.
  const std::vector<FlipSite>& sites() const { return sites_; }
  const NearTieRule& rule() const { return rule_; }

  /// Why the comparison fails; empty: it passes. Nothing compared fails too.
  std::vector<std::string> Failures() const;

 private:
  /// A hash of prompt and tokens up to the flip, and the two tokens.
  using SiteKey = std::pair<uint64_t, std::pair<Token, Token>>;

  NearTieRule rule_;
  int64_t requests_ = 0;
  int64_t flipped_requests_ = 0;
  int64_t tokens_ = 0;
  std::map<SiteKey, size_t> site_index_;
  std::vector<FlipSite> sites_;
  std::vector<std::string> faults_;
};

}  // namespace decant
