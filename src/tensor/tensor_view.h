#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/bf16.h"
#include "tensor/f16.h"

namespace decant {

enum class DType { kF32, kBf16, kF16 };

inline size_t DTypeSize(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

template <typename T>
constexpr DType DTypeOf();
template <>
constexpr DType DTypeOf<float>() {
  return DType::kF32;
}
template <>
constexpr DType DTypeOf<Bf16>() {
  return DType::kBf16;
}
template <>
constexpr DType DTypeOf<F16>() {
  return DType::kF16;
}

/// A matrix [rows, cols] in somebody else's memory, row by row without gaps.
struct TensorView {
  std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t rows = 0;
  int64_t cols = 0;

  /// Row `row` as Ts; T must be the matrix's type.
  template <typename T>
  T* Row(int64_t row) const {
    DECANT_CHECK(dtype == DTypeOf<T>() && row >= 0 && row < rows, "row {} of {}", row, rows);
    return reinterpret_cast<T*>(data) + row * cols;
  }
};

}  // namespace decant
