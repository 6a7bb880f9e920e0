#pragma once

#include <optional>
#include <span>
#include <vector>

namespace decant {

/// One point of a curve: how many requests a second were offered, and how many were served.
struct RatePoint {
  double rate = 0;     ///< On average, as asked for: the curve's other axis.
  double offered = 0;  ///< As these arrivals came out (Traffic::OfferedRate).
  double served = 0;
};

/// How a curve stands at its highest rate, beside the best below it.
enum class CurveEnd {
  kClimbing,  ///< Raising the rate still raises the served rate: more may be in the engine.
  kLevelled,  ///< It gained less than a quarter of what the rate gained.
  kFallen,    ///< It serves less than 98% of the best below.
};

/// Where a curve saturates.
struct Saturation {
  RatePoint best{};  ///< The highest served rate, at the lowest rate that reached it.
  RatePoint last{};  ///< The highest rate.
  CurveEnd end = CurveEnd::kClimbing;
};

/// Reads a curve of at least one point; points may come in any order. One rate alone is climbing.
Saturation FindSaturation(std::span<const RatePoint> points);

/// The rate to offer next in a search for the capacity, none when it is found. The search doubles
/// the rate from `start` until the curve has levelled or fallen; halves the lowest one until it is
/// kept up with (90% of what is offered is served); then halves the wider gap beside the best rate
/// until both neighbours are within an eighth of it.
std::optional<double> NextRate(std::span<const RatePoint> points, double start);

}  // namespace decant
