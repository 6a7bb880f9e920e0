#pragma once

#include <span>

namespace decant {

/// The value below which the share `q` in [0, 1] of `values` (not empty) lies, interpolated between
/// neighbours: quantile type 7 of Hyndman and Fan, "Sample quantiles in statistical packages", The
/// American Statistician 50 (1996), which numpy uses too.
double Quantile(std::span<const double> values, double q);

inline double Median(std::span<const double> values) { return Quantile(values, 0.5); }

}  // namespace decant
