#pragma once

#include <span>

#include "tensor/tensor_view.h"

namespace decant {

/// view = values [rows * cols], rounded to the view's type. The view lies in host memory.
void UploadToHost(std::span<const float> values, TensorView view);

/// values [rows * cols] = view, exactly. The view lies in host memory.
void DownloadFromHost(TensorView view, std::span<float> values);

}  // namespace decant
