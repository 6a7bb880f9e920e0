#include "bench/gates/precision.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace decant {
namespace {

/// A binary floating-point format.
struct Format {
  int precision = 0;     ///< Bits of the significand, the hidden one included.
  int min_exponent = 0;  ///< Of the smallest normal number.
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return {.precision = 24, .min_exponent = -126};
    case DType::kBf16:
      return {.precision = 8, .min_exponent = -126};
    case DType::kF16:
      return {.precision = 11, .min_exponent = -14};
  }
  DECANT_CHECK(false, "a type without a format");
  return {};
}

}  // namespace

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBf16:
      return "bf16";
    case DType::kF16:
      return "fp16";
  }
  DECANT_CHECK(false, "a type without a name");
  return {};
}

double UnitInLastPlace(DType dtype, double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  const Format format = FormatOf(dtype);
  const int exponent =
      value == 0 ? format.min_exponent : std::max(std::ilogb(value), format.min_exponent);
  return std::ldexp(1.0, exponent - (format.precision - 1));
}

double RoundTo(DType dtype, double value) {
  if (!std::isfinite(value)) return value;
  const double unit = UnitInLastPlace(dtype, value);
  return std::nearbyint(value / unit) * unit;
}

}  // namespace decant
