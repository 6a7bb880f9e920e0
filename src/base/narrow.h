#pragma once

#include <concepts>
#include <utility>

#include "base/check.h"

namespace decant {

/// `value` as a To; aborts if To cannot hold it.
template <std::integral To, std::integral From>
constexpr To Narrow(From value) {
  DECANT_CHECK(std::in_range<To>(value), "{} does not fit the target type", value);
  return static_cast<To>(value);
}

/// a / b rounded up, for a >= 0 and b > 0.
template <std::integral T>
constexpr T CeilDiv(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// The smallest multiple of b that is at least a, for a >= 0 and b > 0.
template <std::integral T>
constexpr T RoundUp(T a, T b) {
  return CeilDiv(a, b) * b;
}

}  // namespace decant
