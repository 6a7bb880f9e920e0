#include "ops/cuda/step_upload.h"

#include <span>

namespace decant {

Expected<StepUpload> StepUpload::Create(const StepLimits& limits) {
  StepUpload upload(limits);
  const auto bytes = [](int64_t words) { return static_cast<size_t>(words) * sizeof(int32_t); };
  for (Slot& slot : upload.slots_) {
    DECANT_ASSIGN_OR_RETURN(
        slot.host, PinnedBuffer::Allocate(bytes(upload.packer_.host_words()), "a step's upload"));
    DECANT_ASSIGN_OR_RETURN(slot.copied, CudaEvent::Create());
  }
  DECANT_ASSIGN_OR_RETURN(
      upload.device_,
      DeviceBuffer::Allocate(bytes(upload.packer_.device_words()), "a step's upload"));
  // The plan of decode attention reads room for rows that a step does not have.
  DECANT_RETURN_IF_ERROR(
      CudaStatus(FillDevice(upload.device_.data(), 0, upload.device_.size()), "clearing memory"));
  return Expected<StepUpload>(std::move(upload));
}

Expected<StepArrays> StepUpload::Send(const StepBatch& batch, PromptPlanner* planner,
                                      StepShape shape, const GraphDraws& draws,
                                      const CudaStream& stream) {
  turn_ = 1 - turn_;
  Slot& slot = slots_[turn_];
  if (slot.used) DECANT_RETURN_IF_ERROR(slot.copied.Wait());
  auto* const host = slot.host.As<int32_t>();
  auto* const device = device_.As<int32_t>();
  const StepArrays step =
      packer_.Pack(batch, planner, shape, draws,
                   std::span(host, static_cast<size_t>(packer_.host_words())), device);
  LaunchStepCopies(packer_.copies(), host, device, stream.get());
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "uploading a step"));
  DECANT_RETURN_IF_ERROR(slot.copied.Record(stream));
  slot.used = true;
  return step;
}

}  // namespace decant
