#include "ops/cpu/cpu_kernels.h"

#include "base/check.h"
#include "ops/cpu/cpu_kernels_levels.h"

namespace decant {

std::string_view CpuLevelName(CpuLevel level) { return KernelsFor(level).name; }

CpuLevel DetectCpuLevel() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return CpuLevel::kBaseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return CpuLevel::kAvx2;
  return __builtin_cpu_supports("avx512bf16") ? CpuLevel::kAvx512Bf16 : CpuLevel::kAvx512;
}

const CpuKernels& KernelsFor(CpuLevel level) {
  switch (level) {
    case CpuLevel::kBaseline:
      return kBaselineKernels;
    case CpuLevel::kAvx2:
      return kAvx2Kernels;
    case CpuLevel::kAvx512:
      return kAvx512Kernels;
    case CpuLevel::kAvx512Bf16:
      return kAvx512Bf16Kernels;
  }
  DECANT_CHECK(false, "no such level");
}

}  // namespace decant
