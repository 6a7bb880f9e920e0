#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sched/step_load.h"

namespace decant {

/// Learns how long loaded steps take from those that ran: a constant, and so much for each token,
/// each position of rows that decode, each position that the furthest chunk reads, and each pair of
/// a query and a key of the chunks. Tokens cost more from 64, 128, 256, 512 and 1024 on, since a
/// step that reads all weights computes the first ones meanwhile. No cost is below 0. They are
/// fitted anew after each step by least squares in which later steps weigh more, and those near the
/// time of interest: the estimate is best there. What the steps cannot tell apart stays as it was.
/// Single steps far from the others have little weight; where eight in a row are a fifth or more to
/// the same side, the device has changed, and what was before is forgotten.
///
/// A pure function of what it was told. It allocates once.
class StepTimeEstimate {
 public:
  /// `interest`: the time that estimates are compared with, in seconds.
  explicit StepTimeEstimate(double interest);

  /// A step that ran, with prompt tokens. `seconds` that are not above 0 or not finite are left
  /// out.
  void Add(const StepLoad& load, double seconds);

  /// What a step takes; 0 before there is any.
  double Seconds(const StepLoad& load) const;

  /// What the estimate must be multiplied by, so that each of the last 256 steps near the time of
  /// interest would have stayed below; at least 1. Steps of more than twice their estimate are left
  /// out where they are one in fifty at most: something else held them up.
  double margin() const { return margin_; }

  /// The most prompt tokens of one of these steps.
  int32_t most_prompt_tokens() const;

  bool empty() const { return steps_.empty(); }

 private:
  static constexpr size_t kTerms = 10;
  using Terms = std::array<double, kTerms>;

  struct Step {
    Terms terms;
    double seconds;
    int32_t prompt_tokens;
  };

  static Terms TermsOf(const StepLoad& load);
  double Seconds(const Terms& terms) const;
  void NoteSide(double ratio);
  void Sum(const Step& step, double weight);
  void Solve();
  void FindMargin();

  double interest_;
  std::vector<Step> steps_;               ///< Oldest first.
  std::array<Terms, kTerms> products_{};  ///< Of the terms, summed over the steps.
  Terms right_{};                         ///< Of the terms and the seconds, likewise.
  Terms weights_{};
  double margin_ = 1;
  int32_t run_ = 0;  ///< Last steps that took much longer (above 0) or shorter (below) in a row.
};

}  // namespace decant
