#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"
#include "ops/kernel_overlap.h"

namespace decant {

/// Ok, or an internal error with CUDA's own words and what was being done.
Status CudaStatus(cudaError_t error, std::string_view what);

/// Copies to the device and fills its memory, and waits until that is done, so that work of any
/// stream may follow: cudaMemcpy may return while the last part is still on its way, and cudaMemset
/// does not wait.
cudaError_t CopyToDevice(void* to, const void* from, size_t bytes);
cudaError_t FillDevice(void* to, int byte, size_t bytes);

/// What a GPU is.
struct CudaDeviceInfo {
  int ordinal = 0;
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;  ///< all there is
  int64_t free_bytes = 0;    ///< when asked
};

/// How many usable GPUs there are; 0 without a driver.
int CountCudaDevices();

/// Makes `ordinal` the calling thread's device and describes it. Errors: no driver or no such
/// device, with what there is; a compute capability below 8.0.
Expected<CudaDeviceInfo> OpenCudaDevice(int ordinal);

enum class CudaMemory {
  kDevice,
  kPinnedHost,  ///< Host memory that the device can copy from and to without waiting.
};

/// Memory that CUDA gives. Move-only.
template <CudaMemory kMemory>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  /// Errors: resource exhausted, with the bytes asked for and `what` they were for.
  static Expected<CudaBuffer> Allocate(size_t bytes, std::string_view what);
  CudaBuffer(CudaBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  CudaBuffer(const CudaBuffer&) = delete;
  CudaBuffer& operator=(const CudaBuffer&) = delete;
  ~CudaBuffer();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

using DeviceBuffer = CudaBuffer<CudaMemory::kDevice>;
using PinnedBuffer = CudaBuffer<CudaMemory::kPinnedHost>;

/// A queue of work on the device. Move-only.
class CudaStream {
 public:
  CudaStream() = default;
  static Expected<CudaStream> Create();
  CudaStream(CudaStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&& other) noexcept;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream();

  cudaStream_t get() const { return stream_; }
  Status Synchronize() const;

 private:
  cudaStream_t stream_ = nullptr;
};

/// Work of a stream that was recorded once and can be launched often. Move-only.
class CudaGraph {
 public:
  CudaGraph() = default;
  /// Records what `calls` queues on `stream`, which does not run meanwhile. Errors: failed
  /// precondition, with CUDA's words, where something that `calls` does cannot be recorded: it
  /// waits, allocates or uses another stream. With KernelOverlap::kNone every kernel of the graph
  /// waits until those before it have ended, however it was queued.
  static Expected<CudaGraph> Record(const CudaStream& stream, const std::function<void()>& calls,
                                    KernelOverlap overlap = KernelOverlap::kAllowed);
  /// The same in two halves: what is queued between them is recorded. EndRecording ends it whatever
  /// it says.
  static Status BeginRecording(const CudaStream& stream);
  static Expected<CudaGraph> EndRecording(const CudaStream& stream);
  CudaGraph(CudaGraph&& other) noexcept
      : graph_(std::exchange(other.graph_, nullptr)), bytes_(other.bytes_) {}
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph();

  Status Launch(const CudaStream& stream) const;
  /// Of device memory, as far as what is free tells; others' allocations meanwhile count too.
  int64_t bytes() const { return bytes_; }

 private:
  cudaGraphExec_t graph_ = nullptr;
  int64_t bytes_ = 0;
};

/// A point in a stream, with the time it was passed. Move-only.
class CudaEvent {
 public:
  CudaEvent() = default;
  static Expected<CudaEvent> Create();
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent();

  cudaEvent_t get() const { return event_; }
  Status Record(const CudaStream& stream) const;
  Status Wait() const;  ///< Blocks the calling thread until the point is passed.
  /// Seconds from `begin` to this; both must have been passed.
  double SecondsSince(const CudaEvent& begin) const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace decant
