#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/status.h"

namespace decant {

/// Where a condition that holds up to some value, and not beyond, stops to hold.
struct HeldRange {
  std::optional<double> held{};    ///< The highest value found that holds; none: not even `least`.
  std::optional<double> beyond{};  ///< The lowest found that does not; none: even `most` holds.
};

struct RateSearch {
  double start = 1;         ///< Above 0; the nearer to the answer, the fewer trials.
  double least = 1e-3;      ///< Above 0.
  double most = 1e6;        ///< At least `least`.
  double precision = 0.01;  ///< Ends where the range is this share wide; above 0.
};

/// Brackets the answer from the start by growing factors, then halves the bracket by ratio. Errors:
/// those of `holds`.
Expected<HeldRange> FindHighest(const RateSearch& search,
                                const std::function<Expected<bool>(double)>& holds);

/// Where a condition that holds from some number on, and not below, begins to hold.
struct LeastRange {
  std::optional<int32_t> held{};  ///< The lowest number found that holds; none: not even `most`.
  int32_t below = 0;              ///< The highest found that does not; 0: even 1 holds.
};

struct CountSearch {
  int32_t start = 1;        ///< At least 1.
  int32_t most = 1 << 16;   ///< At least 1.
  double precision = 0.01;  ///< Ends where the range is 1 or this share of the number wide.
};

/// The same over whole numbers from 1 on. Errors: those of `holds`.
Expected<LeastRange> FindLeast(const CountSearch& search,
                               const std::function<Expected<bool>(int32_t)>& holds);

}  // namespace decant
