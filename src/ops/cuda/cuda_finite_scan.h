#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"
#include "ops/cuda/device.h"
#include "ops/finite_scan.h"

namespace decant {

/// Looks at activations in device memory, by one kernel a view on the stream that computes them.
/// The stream must outlive the scan; `note` is told of what fails.
class CudaFiniteScan : public FiniteScan {
 public:
  CudaFiniteScan(const CudaStream& stream, std::function<void(const Status&)> note)
      : stream_(stream), note_(std::move(note)) {}

  void Restart(int32_t tokens) override;
  void Look(TensorView view, int32_t place) override;
  std::span<const TokenFault> Faults() override;

 private:
  const CudaStream& stream_;
  std::function<void(const Status&)> note_;
  DeviceBuffer faults_;           ///< TokenFault [tokens] at least
  std::vector<TokenFault> host_;  ///< [tokens]
};

}  // namespace decant
