#include "bench/quantile.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace decant {

double Quantile(std::span<const double> values, double q) {
  DECANT_CHECK(!values.empty() && q >= 0 && q <= 1, "no quantile {} of {} values", q,
               values.size());
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  const double place = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(place));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double share = place - static_cast<double>(below);
  return sorted[below] + share * (sorted[above] - sorted[below]);
}

}  // namespace decant
