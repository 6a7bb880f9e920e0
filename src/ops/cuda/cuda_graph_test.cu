// Graphs in which kernels may overlap, and the same recorded so that they may not.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <utility>

#include "ops/cuda/device.h"
#include "ops/cuda/launch.cuh"

namespace decant {
namespace {

__device__ inline uint64_t Nanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Lets the next kernel start, and looks for a second whether it has.
__global__ void First(const volatile int32_t* began, int32_t* saw) {
  LetLaterKernelsStart();
  const uint64_t start = Nanoseconds();
  while (*began == 0 && Nanoseconds() - start < 1'000'000'000) continue;
  *saw = *began;
}

/// Does not wait for what is before it.
__global__ void Second(volatile int32_t* began) { *began = 1; }

/// Whether the first of two kernels of a graph sees that the second has begun.
Expected<bool> Overlaps(const CudaStream& stream, KernelOverlap overlap) {
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer memory,
                          DeviceBuffer::Allocate(2 * sizeof(int32_t), "two flags"));
  DECANT_RETURN_IF_ERROR(CudaStatus(FillDevice(memory.data(), 0, memory.size()), "clearing"));
  auto* const flags = memory.As<int32_t>();
  const auto calls = [&] {
    LaunchOverlapped(First, 1, 1, 0, stream.get(), flags, flags + 1);
    LaunchOverlapped(Second, 1, 1, 0, stream.get(), flags);
  };
  DECANT_ASSIGN_OR_RETURN(const CudaGraph graph, CudaGraph::Record(stream, calls, overlap));
  DECANT_RETURN_IF_ERROR(graph.Launch(stream));
  DECANT_RETURN_IF_ERROR(stream.Synchronize());
  int32_t seen[2] = {};
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaMemcpy(seen, flags, sizeof(seen), cudaMemcpyDeviceToHost),
                                    "reading two flags"));
  EXPECT_EQ(seen[0], 1) << "the second kernel never ran";
  return seen[1] == 1;
}

TEST(CudaGraphTest, KernelsOverlapUnlessRecordedOtherwise) {
  if (CountCudaDevices() == 0) GTEST_SKIP() << "no CUDA device here";
  const Expected<CudaDeviceInfo> device = OpenCudaDevice(0);
  ASSERT_TRUE(device.ok()) << device.status().message();
  if (device->compute_major < 9) GTEST_SKIP() << "this device overlaps no kernels";
  Expected<CudaStream> stream = CudaStream::Create();
  ASSERT_TRUE(stream.ok());
  EXPECT_TRUE(Overlaps(*stream, KernelOverlap::kAllowed).value());
  EXPECT_FALSE(Overlaps(*stream, KernelOverlap::kNone).value());
}

}  // namespace
}  // namespace decant
