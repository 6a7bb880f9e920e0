#include "bench/gates/near_tie.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/token_hash.h"

namespace decant {
void NearTieJudge::Compare(std::string_view where, const ReferenceTokens& reference,
                           std::span<const Token> tokens, double allowed_gap) {
  ++requests_;
  const size_t common = std::min(reference.tokens.size(), tokens.size());
  const auto flip = static_cast<size_t>(std::mismatch(tokens.begin(),
                                                      tokens.begin() + static_cast<int64_t>(common),
                                                      reference.tokens.begin())
                                            .first -
                                        tokens.begin());
  tokens_ += static_cast<int64_t>(std::min(flip + 1, common));
  if (flip == common) {
    if (reference.tokens.size() != tokens.size()) {
      faults_.push_back(fmt::format("{}: {} tokens, the reference has {}", where, tokens.size(),
                                    reference.tokens.size()));
    }
    return;
  }
  ++flipped_requests_;
  const uint64_t before = HashTokens(HashTokens(0, reference.prompt), reference.tokens.first(flip));
  const SiteKey key{before, {reference.tokens[flip], tokens[flip]}};
  const auto [found, added] = site_index_.try_emplace(key, sites_.size());
  if (!added) {
    ++sites_[found->second].requests;
    return;
  }
  sites_.push_back(FlipSite{.where = std::string(where),
                            .position = static_cast<int32_t>(flip),
                            .reference_token = reference.tokens[flip],
                            .token = tokens[flip],
                            .gap = flip < reference.gaps.size()
                                       ? reference.gaps[flip]
                                       : std::numeric_limits<double>::quiet_NaN(),
                            .allowed_gap = allowed_gap,
                            .requests = 1});
}

double NearTieJudge::largest_gap() const {
  double largest = 0;
  for (const FlipSite& site : sites_) {
    if (std::isnan(site.gap)) return site.gap;
    largest = std::max(largest, site.gap);
  }
  return largest;
}

std::vector<std::string> NearTieJudge::Failures() const {
  std::vector<std::string> failures = faults_;
  if (tokens_ == 0) failures.emplace_back("no token was compared");
  for (const FlipSite& site : sites_) {
    if (site.near_tie()) continue;
    failures.push_back(fmt::format(
        "{}: token {} of the answer is {}, the reference's {}, whose two best logits are {:.4f} "
        "apart; a near tie is under {:g}",
        site.where, site.position, site.token, site.reference_token, site.gap, site.allowed_gap));
  }
  const auto ties = std::ranges::count_if(sites_, [](const FlipSite& s) { return s.near_tie(); });
  if (ties > rule_.max_sites) {
    failures.push_back(fmt::format("{} near ties flipped; at most {} may", ties, rule_.max_sites));
  }
  return failures;
}

}  // namespace decant
