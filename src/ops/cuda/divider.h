#pragma once

#include <cstdint>

namespace decant {

/// Division by a number that the compiler does not know, as one multiplication. Exact for dividends
/// below 2^31 / divisor: with 2^31 + e the multiplier times the divisor, e <= divisor, the product
/// is too large by dividend * e / 2^31 divisor-ths.
struct Divider {
  Divider() = default;
  constexpr explicit Divider(uint32_t by) : multiplier((uint32_t{1} << 31) / by + 1), divisor(by) {}

  constexpr uint32_t Quotient(uint32_t dividend) const {
    return static_cast<uint32_t>(uint64_t{2 * dividend} * multiplier >> 32);
  }
  constexpr uint32_t Remainder(uint32_t dividend) const {
    return dividend - Quotient(dividend) * divisor;
  }

  uint32_t multiplier = 0;
  uint32_t divisor = 1;
};

}  // namespace decant
