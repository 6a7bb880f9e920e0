#include "ops/cuda/device.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace decant {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

Status AllocationStatus(cudaError_t error, size_t bytes, std::string_view what) {
  if (error == cudaSuccess) return {};
  if (error != cudaErrorMemoryAllocation) return CudaStatus(error, what);
  cudaGetLastError();  // clears it: the caller may go on with less
  return Error(StatusCode::kResourceExhausted, "{:.2f} GiB for {} are not free",
               static_cast<double>(bytes) / kGib, what);
}

/// Of the device's memory; 0 if it cannot be told.
size_t FreeBytes() {
  size_t free_bytes = 0;
  size_t all_bytes = 0;
  if (cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess) return free_bytes;
  cudaGetLastError();
  return 0;
}

/// Makes every kernel of a recorded graph wait for the end of those before it: each edge that asks
/// for less is exchanged for an ordinary one.
cudaError_t ForbidOverlap(cudaGraph_t graph) {
  size_t count = 0;
  cudaError_t error = cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count);
  if (error != cudaSuccess || count == 0) return error;
  std::vector<cudaGraphNode_t> from(count);
  std::vector<cudaGraphNode_t> to(count);
  std::vector<cudaGraphEdgeData> edges(count);
  error = cudaGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count);
  for (size_t i = 0; i < count && error == cudaSuccess; ++i) {
    if (edges[i].type == cudaGraphDependencyTypeDefault) continue;
    error = cudaGraphRemoveDependencies(graph, &from[i], &to[i], &edges[i], 1);
    if (error == cudaSuccess) error = cudaGraphAddDependencies(graph, &from[i], &to[i], nullptr, 1);
  }
  return error;
}

/// Ends a capture of `stream` and makes a graph of what was captured. `free_before`, if any: what
/// memory was free before the graph took its own.
cudaError_t EndCapture(cudaStream_t stream, KernelOverlap overlap, cudaGraphExec_t* graph,
                       size_t* free_before) {
  cudaGraph_t recorded = nullptr;
  cudaError_t error = cudaStreamEndCapture(stream, &recorded);
  if (free_before != nullptr) *free_before = FreeBytes();
  if (error == cudaSuccess && overlap == KernelOverlap::kNone) error = ForbidOverlap(recorded);
  if (error == cudaSuccess) error = cudaGraphInstantiate(graph, recorded, 0);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  return error;
}

Status RecordingStatus(cudaError_t error) {
  if (error == cudaSuccess) return {};
  cudaGetLastError();  // clears it: nothing ran, the stream can go on
  return Error(StatusCode::kFailedPrecondition, "the calls cannot be recorded as a CUDA graph: {}",
               cudaGetErrorString(error));
}

}  // namespace

Status CudaStatus(cudaError_t error, std::string_view what) {
  if (error == cudaSuccess) return {};
  return Error(StatusCode::kInternal, "CUDA, {}: {}", what, cudaGetErrorString(error));
}

cudaError_t CopyToDevice(void* to, const void* from, size_t bytes) {
  const cudaError_t error = cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice);
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamLegacy) : error;
}

cudaError_t FillDevice(void* to, int byte, size_t bytes) {
  const cudaError_t error = cudaMemset(to, byte, bytes);
  return error == cudaSuccess ? cudaStreamSynchronize(cudaStreamLegacy) : error;
}

int CountCudaDevices() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

Expected<CudaDeviceInfo> OpenCudaDevice(int ordinal) {
  const int count = CountCudaDevices();
  if (count == 0) {
    return Error(StatusCode::kFailedPrecondition,
                 "no CUDA device: there is no NVIDIA GPU, or no driver that knows CUDA {}.{}",
                 CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  }
  if (ordinal < 0 || ordinal >= count) {
    return InvalidArgument("CUDA device {} does not exist; allowed: 0 to {}", ordinal, count - 1);
  }
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaSetDevice(ordinal), "opening the device"));
  cudaDeviceProp properties{};
  DECANT_RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties, ordinal), "reading the device's properties"));
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  DECANT_RETURN_IF_ERROR(
      CudaStatus(cudaMemGetInfo(&free_bytes, &total_bytes), "reading the device's memory"));
  if (properties.major < 8) {
    return Error(StatusCode::kUnimplemented,
                 "{} has compute capability {}.{}; 8.0 (Ampere) or newer is supported",
                 properties.name, properties.major, properties.minor);
  }
  return CudaDeviceInfo{.ordinal = ordinal,
                        .name = properties.name,
                        .compute_major = properties.major,
                        .compute_minor = properties.minor,
                        .multiprocessors = properties.multiProcessorCount,
                        .memory_bytes = static_cast<int64_t>(total_bytes),
                        .free_bytes = static_cast<int64_t>(free_bytes)};
}

template <CudaMemory kMemory>
Expected<CudaBuffer<kMemory>> CudaBuffer<kMemory>::Allocate(size_t bytes, std::string_view what) {
  constexpr auto kAllocate = [](void** data, size_t size) {
    return kMemory == CudaMemory::kDevice ? cudaMalloc(data, size) : cudaMallocHost(data, size);
  };
  CudaBuffer buffer;
  void* data = nullptr;
  DECANT_RETURN_IF_ERROR(
      AllocationStatus(kAllocate(&data, std::max<size_t>(bytes, 1)), bytes, what));
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.size_ = bytes;
  return buffer;
}

template <CudaMemory kMemory>
CudaBuffer<kMemory>::~CudaBuffer() {
  kMemory == CudaMemory::kDevice ? cudaFree(data_) : cudaFreeHost(data_);
}

template class CudaBuffer<CudaMemory::kDevice>;
template class CudaBuffer<CudaMemory::kPinnedHost>;

Expected<CudaStream> CudaStream::Create() {
  CudaStream stream;
  DECANT_RETURN_IF_ERROR(CudaStatus(
      cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking), "creating a stream"));
  return stream;
}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status CudaStream::Synchronize() const {
  return CudaStatus(cudaStreamSynchronize(stream_), "waiting for the device");
}

Status CudaGraph::BeginRecording(const CudaStream& stream) {
  // Other threads' calls do not end this recording.
  return CudaStatus(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
                    "beginning to record a graph");
}

Expected<CudaGraph> CudaGraph::EndRecording(const CudaStream& stream) {
  CudaGraph graph;
  size_t before = 0;
  cudaError_t error = EndCapture(stream.get(), KernelOverlap::kAllowed, &graph.graph_, &before);
  // What the first launch would do, so that its memory counts.
  if (error == cudaSuccess) error = cudaGraphUpload(graph.graph_, stream.get());
  DECANT_RETURN_IF_ERROR(RecordingStatus(error));
  const size_t after = FreeBytes();
  graph.bytes_ = before > after ? static_cast<int64_t>(before - after) : 0;
  return Expected<CudaGraph>(std::move(graph));
}

Expected<CudaGraph> CudaGraph::Record(const CudaStream& stream, const std::function<void()>& calls,
                                      KernelOverlap overlap) {
  DECANT_RETURN_IF_ERROR(BeginRecording(stream));
  calls();
  CudaGraph graph;
  DECANT_RETURN_IF_ERROR(
      RecordingStatus(EndCapture(stream.get(), overlap, &graph.graph_, nullptr)));
  return Expected<CudaGraph>(std::move(graph));
}

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  std::swap(graph_, other.graph_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

CudaGraph::~CudaGraph() {
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
}

Status CudaGraph::Launch(const CudaStream& stream) const {
  return CudaStatus(cudaGraphLaunch(graph_, stream.get()), "launching a graph");
}

Expected<CudaEvent> CudaEvent::Create() {
  CudaEvent event;
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&event.event_), "creating an event"));
  return event;
}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  std::swap(event_, other.event_);
  return *this;
}

CudaEvent::~CudaEvent() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status CudaEvent::Record(const CudaStream& stream) const {
  return CudaStatus(cudaEventRecord(event_, stream.get()), "recording an event");
}

Status CudaEvent::Wait() const {
  return CudaStatus(cudaEventSynchronize(event_), "waiting for a step");
}

double CudaEvent::SecondsSince(const CudaEvent& begin) const {
  float milliseconds = 0;
  if (cudaEventElapsedTime(&milliseconds, begin.event_, event_) != cudaSuccess) return 0;
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace decant
