#include "ops/cuda/cuda_finite_scan.h"

#include "ops/cuda/finite_scan_kernel.h"

namespace decant {

void CudaFiniteScan::Restart(int32_t tokens) {
  host_.resize(tokens);
  const size_t bytes = host_.size() * sizeof(TokenFault);
  if (bytes > faults_.size()) {
    Expected<DeviceBuffer> memory = DeviceBuffer::Allocate(bytes, "--check-finite");
    if (!memory.ok()) return note_(memory.status());
    // What is queued may still write to the old memory.
    note_(stream_.Synchronize());
    faults_ = std::move(memory).value();
  }
  LaunchForgetFaults(faults_.As<TokenFault>(), tokens, stream_.get());
  note_(CudaStatus(cudaGetLastError(), "looking at activations"));
}

void CudaFiniteScan::Look(TensorView view, int32_t place) {
  if (faults_.size() < host_.size() * sizeof(TokenFault)) return;  // no memory, as was noted
  LaunchLookForFaults(view, place, faults_.As<TokenFault>(), stream_.get());
  note_(CudaStatus(cudaGetLastError(), "looking at activations"));
}

std::span<const TokenFault> CudaFiniteScan::Faults() {
  const size_t bytes = host_.size() * sizeof(TokenFault);
  if (faults_.size() < bytes) return {};
  const Status copied = CudaStatus(
      cudaMemcpyAsync(host_.data(), faults_.data(), bytes, cudaMemcpyDeviceToHost, stream_.get()),
      "downloading what was found in activations");
  note_(copied);
  if (!copied.ok()) return {};
  const Status done = stream_.Synchronize();
  note_(done);
  if (!done.ok()) return {};
  return host_;
}

}  // namespace decant
