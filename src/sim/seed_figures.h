#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "sim/step_time_model.h"

namespace decant {

/// What a figure counts.
enum class SeedQuantity {
  kServed,  ///< Requests served a second.
  kQueue,   ///< Median wait before admission, seconds.
  kWall,    ///< Seconds to the last request of a closed batch.
};

/// A published figure of the engine that this one is compared with, to be predicted.
struct SeedFigure {
  std::string name{};
  SeedQuantity quantity = SeedQuantity::kServed;
  SimulatedKernel kernel = SimulatedKernel::kRows;
  int32_t page_size = 64;
  bool older_version = false;  ///< The older PyTorch.
  int32_t requests = 400;
  double rate = 0;        ///< Requests a second; 0: a closed batch.
  int32_t num_pages = 0;  ///< 0: nothing caps the pool.
  double published = 0;
};

/// Those that the published text gives, in its order.
std::span<const SeedFigure> SeedFigures();

/// Two figures of SeedFigures() of one draw by another: of the draw, less depends on it.
struct SeedRatio {
  std::string name{};
  size_t over = 0;   ///< Index into SeedFigures().
  size_t under = 0;  ///< Likewise.

  double published() const {
    return SeedFigures()[over].published / SeedFigures()[under].published;
  }
};

std::span<const SeedRatio> SeedRatios();

/// The figure on `device` with draw number `draw` of requests and arrivals (the published draw is
/// another one). Errors: those of the device's model and of Simulate.
Expected<double> SimulateSeedFigure(const SeedFigure& figure, const StepTimeParameters& device,
                                    uint64_t draw);

}  // namespace decant
