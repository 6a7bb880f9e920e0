#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"
#include "sim/simulation.h"
#include "sim/step_time_model.h"

namespace decant {

/// A run of a campaign, with what was measured of it.
struct CampaignPoint {
  std::string source{};    ///< The file, below the folder of results.
  std::string workload{};  ///< As ParseWorkloadName reads it; "trace" for a trace.
  std::string trace{};     ///< "FILE xSPEEDUP"; empty otherwise.
  SimulatedKernel kernel = SimulatedKernel::kRows;
  SimulatedEngineConfig engine{};  ///< num_pages 0: whatever the device has.
  int32_t requests = 0;
  double rate = 0;  ///< Requests a second asked for; 0: a closed batch.
  uint64_t arrival_seed = 0;
  /// Closed: seconds to the last request (the median of the runs). Else: requests served a second.
  double measured = 0;
  double measured_queue = 0;        ///< Median wait before admission, seconds; open runs.
  double measured_decode_step = 0;  ///< Median of pure decode steps, seconds.
  double measured_loaded_step = 0;

  bool closed() const { return rate == 0; }
};

/// The model's figures for a point.
struct CampaignPrediction {
  double value = 0;  ///< Of CampaignPoint::measured.
  double queue = 0;
  double decode_step = 0;
  double loaded_step = 0;
};

/// The runs in `folder`: closed/*/runs.csv, seeds/*/runs.csv, and arrivals.csv in arrivals, capped,
/// seeds and trace; what is not there is left out. Errors, naming the file: data loss; not found,
/// if there is none at all.
Expected<std::vector<CampaignPoint>> ReadCampaign(const std::filesystem::path& folder);

/// Simulates the very requests of `point`. `traces`: the folder with the traces it names. Errors:
/// those of the device's model, of the trace, and of Simulate.
Expected<CampaignPrediction> Predict(const CampaignPoint& point, const StepTimeParameters& device,
                                     const std::filesystem::path& traces);

}  // namespace decant
