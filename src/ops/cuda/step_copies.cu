#include <algorithm>

#include "ops/cuda/step_upload.h"

namespace decant {
namespace {

constexpr int kThreads = 256;
constexpr int32_t kMostBlocks = 128;

__global__ void StepCopiesKernel(StepCopies copies, const int32_t* from, int32_t* to) {
  const int32_t words = copies.words();
  const auto stride = static_cast<int32_t>(gridDim.x) * kThreads;
  for (auto i = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x); i < words; i += stride) {
    CopyStepWord(copies, i, from, to);
  }
  // Attention kernels may read their plan before they wait for the kernels before them.
  __threadfence();
}

}  // namespace

void LaunchStepCopies(const StepCopies& copies, const int32_t* from, int32_t* to,
                      cudaStream_t stream) {
  const int32_t blocks = std::min((copies.words() + kThreads - 1) / kThreads, kMostBlocks);
  // Without the attribute of LaunchOverlapped: the step before still reads what lies there.
  StepCopiesKernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(copies, from, to);
}

}  // namespace decant
