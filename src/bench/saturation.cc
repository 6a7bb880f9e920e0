#include "bench/saturation.h"

#include <algorithm>

#include "base/check.h"

namespace decant {
namespace {

constexpr double kLevelledShare = 0.25;  // of the rate's gain
constexpr double kFallenShare = 0.98;    // of the best below
constexpr double kKeptUpShare = 0.9;     // of what was offered
constexpr double kNarrow = 1.0 / 8;      // of the best rate

std::vector<RatePoint> Sorted(std::span<const RatePoint> points) {
  DECANT_CHECK(!points.empty());
  std::vector<RatePoint> sorted(points.begin(), points.end());
  std::ranges::stable_sort(sorted, {}, &RatePoint::rate);
  return sorted;
}

/// The first of the points that serves most.
RatePoint Best(std::span<const RatePoint> points) {
  return *std::ranges::max_element(points, {}, &RatePoint::served);
}

CurveEnd Judge(const RatePoint& last, const RatePoint& below) {
  if (last.served < kFallenShare * below.served) return CurveEnd::kFallen;
  const double gain = last.served / below.served - 1;
  const double offered_gain = last.rate / below.rate - 1;
  return gain < kLevelledShare * offered_gain ? CurveEnd::kLevelled : CurveEnd::kClimbing;
}

}  // namespace

Saturation FindSaturation(std::span<const RatePoint> points) {
  const std::vector<RatePoint> sorted = Sorted(points);
  // Where the highest rate was run more than once, its best run stands for it.
  const auto top = std::ranges::lower_bound(sorted, sorted.back().rate, {}, &RatePoint::rate);
  Saturation saturation{.best = Best(sorted), .last = Best({top, sorted.end()})};
  if (top != sorted.begin()) saturation.end = Judge(saturation.last, Best({sorted.begin(), top}));
  return saturation;
}

std::optional<double> NextRate(std::span<const RatePoint> points, double start) {
  if (points.empty()) return start;
  const std::vector<RatePoint> sorted = Sorted(points);
  const Saturation saturation = FindSaturation(sorted);
  if (saturation.end == CurveEnd::kClimbing) return 2 * sorted.back().rate;
  const RatePoint& lowest = sorted.front();
  if (lowest.served < kKeptUpShare * lowest.offered) return lowest.rate / 2;

  const double best = saturation.best.rate;
  const auto place = std::ranges::lower_bound(sorted, best, {}, &RatePoint::rate);
  const double below = place == sorted.begin() ? best : std::prev(place)->rate;
  const double above = std::next(place) == sorted.end() ? best : std::next(place)->rate;
  if (std::max(best - below, above - best) <= kNarrow * best) return std::nullopt;
  return above - best > best - below ? (best + above) / 2 : (below + best) / 2;
}

}  // namespace decant
