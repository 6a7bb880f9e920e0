#pragma once

#include <string_view>

#include "tensor/tensor_view.h"

namespace decant {

/// "fp32", "bf16", "fp16".
std::string_view DTypeName(DType dtype);

/// How far apart the numbers of a type are at the magnitude of `value`: the weight of the last bit
/// of its significand. For values below the normal numbers (zero too), the spacing of the
/// subnormals; NaN and infinities: NaN.
double UnitInLastPlace(DType dtype, double value);

/// The number of the type that is nearest to `value`, ties to even. NaN and infinities stay; values
/// past the largest number are not clipped.
double RoundTo(DType dtype, double value);

}  // namespace decant
