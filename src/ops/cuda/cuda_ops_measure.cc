// What CudaOps measures of the device.

#include <memory>
#include <utility>

#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/device.h"
#include "ops/cuda/elementwise.h"

namespace decant {

double CudaOps::MeasureRate() {
  constexpr int64_t kSide = 8192;
  constexpr int kRepeats = 10;
  const auto measure = [&]() -> Expected<double> {
    const size_t bytes = size_t{kSide} * kSide * DTypeSize(dtype_);
    DECANT_ASSIGN_OR_RETURN(DeviceBuffer memory, DeviceBuffer::Allocate(bytes, "measuring"));
    DECANT_ASSIGN_OR_RETURN(const DeviceBuffer input, DeviceBuffer::Allocate(bytes, "measuring"));
    DECANT_ASSIGN_OR_RETURN(const DeviceBuffer output,
                            DeviceBuffer::Allocate(2 * bytes, "measuring"));  // fp32 where ours run
    LaunchRandomFill(type_, {.seed = 1, .limit = 1}, kSide * kSide, memory.data(), stream_.get());
    LaunchRandomFill(type_, {.seed = 2, .limit = 1}, kSide * kSide, input.data(), stream_.get());
    const CudaWeight weight(std::move(memory), kSide, kSide);
    // The device's rate, whatever kernels serve: the library's is the highest where it is there.
    std::unique_ptr<CudaLinear> made;
    if (!linear_) {
      if (auto library = CudaLinear::Create(type_, stream_.get()); library.ok()) {
        made = std::move(library).value();
      }
    }
    CudaLinear* library = linear_ ? linear_.get() : made.get();
    PackedWeight packed;
    if (library == nullptr) {
      DECANT_ASSIGN_OR_RETURN(packed, fused_->linear().Pack(weight.buffer.data(), kSide, kSide));
    }
    const auto run = [&] {
      return library != nullptr
                 ? library->Run(weight, input.data(), kSide, LinearOutput::kElement, output.data())
                 : fused_->linear().Run(packed, {.elements = input.data()}, kSide,
                                        {.output = output.data()});
    };
    DECANT_ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
    DECANT_ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
    for (int i = 0; i <= kRepeats; ++i) {
      if (i == 1) DECANT_RETURN_IF_ERROR(begin.Record(stream_));
      DECANT_RETURN_IF_ERROR(run());
    }
    DECANT_RETURN_IF_ERROR(end.Record(stream_));
    DECANT_RETURN_IF_ERROR(end.Wait());
    return 2.0 * kSide * kSide * kSide * kRepeats / end.SecondsSince(begin);
  };
  const Expected<double> rate = measure();
  return rate.ok() ? *rate : 0;
}

double CudaOps::MeasureBandwidth() {
  constexpr size_t kBytes = size_t{2} << 30;
  constexpr int kRepeats = 10;
  const auto measure = [&]() -> Expected<double> {
    DECANT_ASSIGN_OR_RETURN(const DeviceBuffer memory, DeviceBuffer::Allocate(kBytes, "measuring"));
    DECANT_RETURN_IF_ERROR(CudaStatus(FillDevice(memory.data(), 0, kBytes), "clearing memory"));
    DECANT_ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
    DECANT_ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
    for (int i = 0; i <= kRepeats; ++i) {
      if (i == 1) DECANT_RETURN_IF_ERROR(begin.Record(stream_));
      LaunchReadAll(memory.data(), kBytes, last_tokens(), stream_.get());
    }
    DECANT_RETURN_IF_ERROR(end.Record(stream_));
    DECANT_RETURN_IF_ERROR(end.Wait());
    return static_cast<double>(kBytes) * kRepeats / end.SecondsSince(begin);
  };
  const Expected<double> rate = measure();
  return rate.ok() ? *rate : 0;
}

Expected<std::vector<double>> CudaOps::MeasureSeconds(const std::function<void()>& calls,
                                                      int32_t repeats, KernelOverlap overlap) {
  // What only a first run does, such as loading kernels, is done before the calls are recorded.
  calls();
  DECANT_RETURN_IF_ERROR(status_);
  DECANT_RETURN_IF_ERROR(stream_.Synchronize());
  const Expected<CudaGraph> graph = CudaGraph::Record(stream_, calls, overlap);
  if (!graph.ok()) {
    status_ = Status();  // a call that cannot be recorded spoils the recording and nothing else
    return graph.status();
  }
  DECANT_RETURN_IF_ERROR(status_);
  DECANT_ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
  DECANT_ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
  std::vector<double> seconds;
  for (int32_t i = 0; i <= repeats; ++i) {
    DECANT_RETURN_IF_ERROR(begin.Record(stream_));
    DECANT_RETURN_IF_ERROR(graph->Launch(stream_));
    DECANT_RETURN_IF_ERROR(end.Record(stream_));
    DECANT_RETURN_IF_ERROR(end.Wait());
    if (i > 0) seconds.push_back(end.SecondsSince(begin));
  }
  return seconds;
}

}  // namespace decant
