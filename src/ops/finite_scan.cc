#include "ops/finite_scan.h"

#include <cmath>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

float ToFloat(float value) { return value; }

template <typename T>
void LookAtRows(const TensorView& view, int32_t place, std::span<TokenFault> faults) {
  for (int64_t row = 0; row < view.rows; ++row) {
    TokenFault& fault = faults[row];
    if (fault.place != TokenFault::kNowhere) continue;
    const std::span<const T> values(view.Row<T>(row), static_cast<size_t>(view.cols));
    int32_t infinities = 0;
    int32_t nans = 0;
    for (const T value : values) {
      const float number = ToFloat(value);
      infinities += std::isinf(number) ? 1 : 0;
      nans += std::isnan(number) ? 1 : 0;
    }
    if (infinities + nans == 0) continue;
    fault = {.place = place,
             .infinities = infinities,
             .nans = nans,
             .values = Narrow<int32_t>(view.cols)};
  }
}

}  // namespace

void HostFiniteScan::Restart(int32_t tokens) {
  faults_.assign(tokens, {.place = TokenFault::kNowhere, .infinities = 0, .nans = 0, .values = 0});
}

void HostFiniteScan::Look(TensorView view, int32_t place) {
  DECANT_CHECK(view.rows == static_cast<int64_t>(faults_.size()), "{} rows of {} tokens", view.rows,
               faults_.size());
  switch (view.dtype) {
    case DType::kF32:
      return LookAtRows<float>(view, place, faults_);
    case DType::kBf16:
      return LookAtRows<Bf16>(view, place, faults_);
    case DType::kF16:
      return LookAtRows<F16>(view, place, faults_);
  }
}

}  // namespace decant
