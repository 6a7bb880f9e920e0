#include "tensor/host_copy.h"

#include <algorithm>

namespace decant {
namespace {

void CheckSize(size_t values, TensorView view) {
  DECANT_CHECK(static_cast<int64_t>(values) == view.rows * view.cols, "{} values for [{}, {}]",
               values, view.rows, view.cols);
}

}  // namespace

void UploadToHost(std::span<const float> values, TensorView view) {
  CheckSize(values.size(), view);
  if (values.empty()) return;
  switch (view.dtype) {
    case DType::kF32:
      std::ranges::copy(values, view.Row<float>(0));
      return;
    case DType::kBf16:
      std::ranges::transform(values, view.Row<Bf16>(0), ToBf16);
      return;
    case DType::kF16:
      std::ranges::transform(values, view.Row<F16>(0), ToF16);
      return;
  }
}

void DownloadFromHost(TensorView view, std::span<float> values) {
  CheckSize(values.size(), view);
  if (values.empty()) return;
  switch (view.dtype) {
    case DType::kF32:
      std::copy_n(view.Row<float>(0), values.size(), values.data());
      return;
    case DType::kBf16:
      std::transform(view.Row<Bf16>(0), view.Row<Bf16>(0) + values.size(), values.data(),
                     [](Bf16 value) { return ToFloat(value); });
      return;
    case DType::kF16:
      std::transform(view.Row<F16>(0), view.Row<F16>(0) + values.size(), values.data(),
                     [](F16 value) { return ToFloat(value); });
      return;
  }
}

}  // namespace decant
