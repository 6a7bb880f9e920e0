#include "sim/bisection.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace decant {
namespace {

/// The first step away from the start; squared each time, so that a start that is far off costs
/// few trials.
constexpr double kFirstFactor = 1.25;

}  // namespace

Expected<HeldRange> FindHighest(const RateSearch& search,
                                const std::function<Expected<bool>(double)>& holds) {
  DECANT_CHECK(search.start > 0 && search.least > 0 && search.most >= search.least &&
               search.precision > 0);
  HeldRange range;
  double value = std::clamp(search.start, search.least, search.most);
  for (double factor = kFirstFactor; !range.held || !range.beyond; factor *= factor) {
    DECANT_ASSIGN_OR_RETURN(const bool held, holds(value));
    (held ? range.held : range.beyond) = value;
    if (value == (held ? search.most : search.least)) return range;
    value = std::clamp(held ? value * factor : value / factor, search.least, search.most);
  }
  while (*range.beyond > *range.held * (1 + search.precision)) {
    const double middle = std::sqrt(*range.held * *range.beyond);
    DECANT_ASSIGN_OR_RETURN(const bool held, holds(middle));
    (held ? range.held : range.beyond) = middle;
  }
  return range;
}

Expected<LeastRange> FindLeast(const CountSearch& search,
                               const std::function<Expected<bool>(int32_t)>& holds) {
  DECANT_CHECK(search.start >= 1 && search.most >= 1 && search.precision > 0);
  LeastRange range;
  int32_t count = std::min(search.start, search.most);
  for (double factor = kFirstFactor; !range.held || range.below == 0; factor *= factor) {
    DECANT_ASSIGN_OR_RETURN(const bool held, holds(count));
    if (held) {
      range.held = count;
      if (count == 1) return range;
      count = std::min(count - 1, static_cast<int32_t>(count / factor));
      count = std::max(count, 1);
    } else {
      range.below = count;
      if (count == search.most) return range;
      count = static_cast<int32_t>(
          std::min<double>(std::max(count + 1.0, std::ceil(count * factor)), search.most));
    }
  }
  while (*range.held - range.below > std::max(1.0, *range.held * search.precision)) {
    const int32_t middle = range.below + (*range.held - range.below) / 2;
    DECANT_ASSIGN_OR_RETURN(const bool held, holds(middle));
    if (held) {
      range.held = middle;
    } else {
      range.below = middle;
    }
  }
  return range;
}

}  // namespace decant
