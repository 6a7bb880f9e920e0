#include "ops/cpu/cpu_kernels.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/check.h"
#include "ops/cpu/cpu_kernels_levels.h"

namespace decant {
namespace {

/// Whether the processor has bf16 matrix tiles and the system lets this process use them.
bool MayUseAmx() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  constexpr unsigned kTiles = 1U << 24;
  constexpr unsigned kBf16Tiles = 1U << 22;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & kTiles) == 0 || (edx & kBf16Tiles) == 0) return false;
  // Linux hands out the tiles' state on request only: Documentation/arch/x86/xstate.rst.
  constexpr long kRequestPermission = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

}  // namespace

std::string_view CpuLevelName(CpuLevel level) { return KernelsFor(level).name; }

CpuLevel DetectCpuLevel() {
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return CpuLevel::kBaseline;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (!avx512) return CpuLevel::kAvx2;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuLevel::kAvx512;
  static const bool amx = MayUseAmx();
  return amx ? CpuLevel::kAmx : CpuLevel::kAvx512Bf16;
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
    case CpuLevel::kAmx:
      return kAmxKernels;
  }
  DECANT_CHECK(false, "no such level");
}

}  // namespace decant
