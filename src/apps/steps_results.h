#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/csv_writer.h"
#include "base/jsonl_writer.h"
#include "base/run_header.h"
#include "base/status.h"
#include "bench/machine_probe.h"
#include "bench/step_summary.h"
#include "bench/step_trace.h"

namespace decant {

/// What was run, as rows of results say it.
struct StepsSetting {
  std::string device{};  ///< "cpu", or the GPU's name.
  std::string model{};
  std::string workload{};
  uint64_t seed = 0;
  std::string engine{};  ///< The preset's name.
  std::string decode_kernel{};
  int32_t page_size = 0;
  int32_t max_batch = 0;
  std::string chunk_tokens{};  ///< ChunkName.
  int32_t requests = 0;
};

/// What all runs of the command came to.
struct StepsOutcome {
  std::vector<double> plain_walls{};  ///< Seconds of each run that was not timed part by part.
  std::vector<double> timed_walls{};  ///< Of each that was.
  GapSummary gaps{};                  ///< Of the plain runs.
  IdleSummary idle{};                 ///< Of the plain runs.
  HostSummaries host{};               ///< Likewise.
  TraceSummary steps{};               ///< Of the timed runs.

  /// How much longer the median timed run took than the median plain one, as a share of it.
  double CostOfTiming() const;
};

/// For people: walls with and without timing, and token gaps.
std::string WallText(const StepsOutcome& outcome);
std::string GapText(const GapSummary& gaps);

/// The files of results in one folder: steps.csv and steps.jsonl, both added to, and trace.json, of
/// the last timed run. A run's rows stand there as soon as it is done.
class StepsResults {
 public:
  /// An empty `folder`: nothing is written.
  static Expected<StepsResults> Open(const std::string& folder, const RunHeader& header);

  /// Adds a row a step of timed run `run`, counted from 1.
  Status AddRun(const StepsSetting& setting, int32_t run, std::span<const TracedStep> steps,
                const MachineRates& rates);
  /// Adds the summary, writes the trace of `last_run` and makes the files final.
  Status Close(const StepsSetting& setting, const StepsOutcome& outcome,
               std::span<const TracedStep> last_run, const MachineRates& rates);

 private:
  struct Files {
    CsvWriter csv;
    JsonlWriter jsonl;
    std::string folder;
    RunHeader header;
  };

  explicit StepsResults(std::optional<Files> files) : files_(std::move(files)) {}

  std::optional<Files> files_;
};

}  // namespace decant
