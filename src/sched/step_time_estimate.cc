#include "sched/step_time_estimate.h"

#include <algorithm>
#include <cmath>

#include "base/narrow.h"

namespace decant {
namespace {

constexpr size_t kWindow = 256;      // steps
constexpr double kForget = 0.99;     // a step's weight beside the next one's
constexpr size_t kTrusted = 16;      // steps from which on the estimate judges new ones
constexpr double kFar = 1.2;         // a step is far from its estimate
constexpr int32_t kFarInARow = 8;    // so many in a row are no accident
constexpr double kStall = 2;         // the chunk is not why a step takes longer than this
constexpr size_t kStepsAStall = 50;  // for each stall, at least
constexpr double kLoose = 0.25;      // relative errors above it lose weight
constexpr std::array kKnees = {64, 128, 256, 512, 1024};  // tokens
constexpr double kNear = 0.7;    // of the time of interest: a step near it takes longer
constexpr double kRidge = 1e-4;  // of the mean square, towards the weights before
constexpr int kSweeps = 40;      // over the terms; they start from the weights before

}  // namespace

StepTimeEstimate::StepTimeEstimate(double interest) : interest_(interest) {
  steps_.reserve(kWindow);
}

StepTimeEstimate::Terms StepTimeEstimate::TermsOf(const StepLoad& load) {
  Terms terms = {1, static_cast<double>(load.tokens()), static_cast<double>(load.decode_positions),
                 static_cast<double>(load.longest_prompt_context), load.prompt_pairs};
  for (size_t i = 0; i < kKnees.size(); ++i) {
    terms[terms.size() - kKnees.size() + i] = std::max(0, load.tokens() - kKnees[i]);
  }
  return terms;
}

double StepTimeEstimate::Seconds(const Terms& terms) const {
  double seconds = 0;
  for (size_t i = 0; i < kTerms; ++i) seconds += weights_[i] * terms[i];
  return seconds;
}

double StepTimeEstimate::Seconds(const StepLoad& load) const { return Seconds(TermsOf(load)); }

int32_t StepTimeEstimate::most_prompt_tokens() const {
  int32_t most = 0;
  for (const Step& step : steps_) most = std::max(most, step.prompt_tokens);
  return most;
}

void StepTimeEstimate::Add(const StepLoad& load, double seconds) {
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  const Step step{.terms = TermsOf(load), .seconds = seconds, .prompt_tokens = load.prompt_tokens};
  double loose = 1;
  if (steps_.size() >= kTrusted) {
    NoteSide(seconds / Seconds(step.terms));
    loose = std::max(std::abs(Seconds(step.terms) / seconds - 1) / kLoose, 1.0);
  }
  if (steps_.size() == kWindow) steps_.erase(steps_.begin());
  steps_.push_back(step);
  Sum(step, 1 / loose);
  Solve();
  FindMargin();
}

/// Counts steps far to one side of the estimate; after so many, what lies before them goes, and the
/// weights are raised or lowered as a whole.
void StepTimeEstimate::NoteSide(double ratio) {
  if (ratio > kFar) {
    run_ = std::max(run_, 0) + 1;
  } else if (ratio < 1 / kFar) {
    run_ = std::min(run_, 0) - 1;
  } else {
    run_ = 0;
  }
  if (std::abs(run_) < kFarInARow) return;
  run_ = 0;
  for (double& weight : weights_) weight *= ratio;
  // The step that is judged is not among them yet.
  steps_.erase(steps_.begin(), steps_.end() - (kFarInARow - 1));
  products_ = {};
  right_ = {};
  for (const Step& step : steps_) Sum(step, 1);
}

/// Adds a step to the sums of the normal equations, in which all earlier ones lose some weight.
void StepTimeEstimate::Sum(const Step& step, double weight) {
  const double near = std::min(1.0, step.seconds / interest_);
  // Relative errors count, of steps near the time of interest most.
  weight *= near * near * near * near / (step.seconds * step.seconds);
  for (size_t i = 0; i < kTerms; ++i) {
    for (size_t j = 0; j < kTerms; ++j) {
      products_[i][j] = products_[i][j] * kForget + weight * step.terms[i] * step.terms[j];
    }
    right_[i] = right_[i] * kForget + weight * step.terms[i] * step.seconds;
  }
}

/// Improves the weights term by term, from what they were, to which the ridge holds them.
void StepTimeEstimate::Solve() {
  const Terms before = weights_;
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t i = 0; i < kTerms; ++i) {
      if (!(products_[i][i] > 0)) continue;
      const double ridge = kRidge * products_[i][i];
      double rest = right_[i] + ridge * before[i];
      for (size_t j = 0; j < kTerms; ++j) {
        if (j != i) rest -= products_[i][j] * weights_[j];
      }
      weights_[i] = std::max(0.0, rest / (products_[i][i] + ridge));
    }
  }
}

void StepTimeEstimate::FindMargin() {
  size_t stalls = 0;
  double most = 1;
  double most_with_stalls = 1;
  for (const Step& step : steps_) {
    const double estimate = Seconds(step.terms);
    if (std::max(step.seconds, estimate) < kNear * interest_) continue;
    const double ratio = step.seconds / estimate;
    most_with_stalls = std::max(most_with_stalls, ratio);
    if (ratio > kStall) {
      ++stalls;
    } else {
      most = std::max(most, ratio);
    }
  }
  margin_ = stalls * kStepsAStall <= steps_.size() ? most : most_with_stalls;
}

}  // namespace decant
