#include "bench/saturation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace decant {
namespace {

std::vector<RatePoint> Curve(std::initializer_list<std::pair<double, double>> served) {
  std::vector<RatePoint> points;
  for (const auto& [rate, value] : served) points.push_back({rate, rate, value});
  return points;
}

TEST(SaturationTest, TellsClimbingLevelledAndFallen) {
  const auto climbing = FindSaturation(Curve({{4, 3.9}, {1, 1}, {2, 2}}));
  EXPECT_EQ(climbing.end, CurveEnd::kClimbing);
  EXPECT_EQ(climbing.best.rate, 4);

  const auto levelled = FindSaturation(Curve({{1, 1}, {4, 4}, {8, 5.6}, {16, 5.7}}));
  EXPECT_EQ(levelled.end, CurveEnd::kLevelled);
  EXPECT_EQ(levelled.best.rate, 16);

  const auto fallen = FindSaturation(Curve({{9, 5.49}, {8, 5.68}, {7, 5.42}, {6, 5.2}}));
  EXPECT_EQ(fallen.end, CurveEnd::kFallen);
  EXPECT_EQ(fallen.best.rate, 8);
  EXPECT_EQ(fallen.best.served, 5.68);
  EXPECT_EQ(fallen.last.rate, 9);
}

TEST(SaturationTest, SmallStepsOfTheRateStillClimb) {
  EXPECT_EQ(FindSaturation(Curve({{5, 4.9}, {5.2, 5.08}})).end, CurveEnd::kClimbing);
  EXPECT_EQ(FindSaturation(Curve({{5, 4.9}, {5.2, 4.91}})).end, CurveEnd::kLevelled);
}

TEST(SaturationTest, OneRateIsNoCurve) {
  EXPECT_EQ(FindSaturation(Curve({{4, 1}})).end, CurveEnd::kClimbing);
  EXPECT_EQ(FindSaturation(Curve({{4, 1}, {4, 1.1}})).best.served, 1.1);
  EXPECT_EQ(FindSaturation(Curve({{4, 1}, {4, 1.1}})).end, CurveEnd::kClimbing);
}

/// Searches an engine that serves `served(rate)`; `bias`: how the drawn arrivals' rate came out.
std::vector<RatePoint> Search(double start, double bias,
                              const std::function<double(double)>& served) {
  std::vector<RatePoint> points;
  while (const auto rate = NextRate(points, start)) {
    points.push_back({*rate, *rate * bias, served(*rate * bias)});
    if (points.size() == 100) break;
  }
  return points;
}

TEST(NextRateTest, FindsTheCapacityFromAnyStart) {
  const auto capped = [](double rate) { return std::min(rate * 0.98, 5.7); };
  // 400 requests, the last of which takes two seconds more.
  const auto with_tail = [&](double rate) { return 400 / (400 / capped(rate) + 2); };
  for (const double start : {0.01, 1.0, 5.0, 40.0, 3000.0}) {
    for (const double bias : {0.8, 1.0, 1.25}) {
      const std::vector<RatePoint> points = Search(start, bias, with_tail);
      ASSERT_LT(points.size(), 40U) << start;
      const Saturation found = FindSaturation(points);
      EXPECT_NE(found.end, CurveEnd::kClimbing);
      EXPECT_GT(found.best.served, 0.95 * with_tail(1e9)) << start;
    }
  }
}

TEST(NextRateTest, FindsThePeakOfACurveThatFalls) {
  const auto peaked = [](double rate) { return rate < 6 ? rate : 6 * std::pow(rate / 6, -0.4); };
  for (const double start : {0.3, 1.0, 7.0, 100.0}) {
    const std::vector<RatePoint> points = Search(start, 1, peaked);
    ASSERT_LT(points.size(), 40U);
    const Saturation found = FindSaturation(points);
    EXPECT_EQ(found.end, CurveEnd::kFallen);
    EXPECT_NEAR(found.best.rate, 6, 6.0 / 8) << start;
  }
}

TEST(NextRateTest, DoublesThenHalvesGaps) {
  EXPECT_EQ(NextRate({}, 3), 3);
  EXPECT_EQ(NextRate(Curve({{3, 3}}), 3), 6);
  EXPECT_EQ(NextRate(Curve({{3, 2}, {6, 2}}), 3), 1.5) << "the lowest is not kept up with";
  EXPECT_EQ(NextRate(Curve({{3, 3}, {6, 3.5}, {12, 3.2}}), 3), 9);
  EXPECT_EQ(NextRate(Curve({{3, 3}, {6, 3.5}, {9, 3.4}, {12, 3.2}}), 3), 4.5);
}

}  // namespace
}  // namespace decant
