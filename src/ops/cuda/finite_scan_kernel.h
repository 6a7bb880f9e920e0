#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "ops/finite_scan.h"
#include "tensor/tensor_view.h"

namespace decant {

/// faults[i].place = kNowhere for i below `tokens`; faults: device memory.
void LaunchForgetFaults(TokenFault* faults, int32_t tokens, cudaStream_t stream);

/// FiniteScan::Look on a device: one block of threads a row of `view`, which is in device memory.
/// A row in which something was found before is not read.
void LaunchLookForFaults(const TensorView& view, int32_t place, TokenFault* faults,
                         cudaStream_t stream);

}  // namespace decant
