#pragma once

#include "ops/cpu/cpu_kernels.h"

namespace decant {

// One table for each compilation of cpu_kernels_level.cc.
extern const CpuKernels kBaselineKernels;
extern const CpuKernels kAvx2Kernels;
extern const CpuKernels kAvx512Kernels;
extern const CpuKernels kAvx512Bf16Kernels;
extern const CpuKernels kAmxKernels;

}  // namespace decant
