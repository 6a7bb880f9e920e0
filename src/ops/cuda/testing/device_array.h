#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace decant {

/// Device memory for tests.

/// Fails the test with CUDA's own words.
inline void Require(cudaError_t error) {
  ASSERT_EQ(error, cudaSuccess) << cudaGetErrorString(error);
}

struct CudaFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
template <typename T>
using DeviceArray = std::unique_ptr<T, CudaFree>;

/// `guard_bytes` more lie behind the array.
template <typename T>
DeviceArray<T> AllocateArray(int64_t count, size_t guard_bytes = 0) {
  void* memory = nullptr;
  Require(cudaMalloc(&memory, static_cast<size_t>(count) * sizeof(T) + guard_bytes));
  return DeviceArray<T>(static_cast<T*>(memory));
}

/// What `memory` holds once the device has done all that it was given.
template <typename T>
std::vector<T> Download(const T* memory, int64_t count) {
  std::vector<T> values(static_cast<size_t>(count));
  Require(cudaDeviceSynchronize());
  Require(cudaMemcpy(values.data(), memory, values.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

}  // namespace decant
