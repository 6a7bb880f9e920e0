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
#include "bench/closed_run.h"
#include "bench/step_summary.h"

namespace decant {

/// One batch size on one engine: what was measured, and with what.
struct ClosedBatch {
  std::string workload{};
  uint64_t seed = 0;
  bool one_of_seeds = false;  ///< Whether the label names the seed.
  int32_t batch_size = 0;
  int32_t max_batch = 0;
  std::string chunk_tokens{};  ///< ChunkName.
  int32_t page_size = 0;
  std::string decode_kernel{};
  int64_t prompt_tokens = 0;     ///< Of the whole batch.
  int64_t generated_tokens = 0;  ///< Of the whole batch.
  std::vector<double> runs{};    ///< Wall seconds of each recorded run, to the last request.
  StepSummaries steps{};         ///< Of all recorded runs together.

  /// "32 requests, 8 rows, split", how chunks are chosen where they are, and the seed where there
  /// are several.
  std::string Label() const;
  /// Label, median and range of the runs.
  std::string Line() const;
};

/// For people: wall times of the batches, and rates.
std::string WallTable(std::span<const ClosedBatch> batches);

std::vector<LabelledSteps> StepsOf(std::span<const ClosedBatch> batches);

/// The files of results: runs.csv and runs.jsonl in one folder, both added to. A run stands there
/// as soon as it is done, whatever happens later.
class ClosedResults {
 public:
  /// An empty `folder`: nothing is written.
  static Expected<ClosedResults> Open(const std::string& folder, const RunHeader& header);

  /// `batch.runs` has the run's wall time as its last.
  Status AddRun(const ClosedBatch& batch, const ClosedRun& run, const StepSummaries& steps);
  Status AddBatch(const ClosedBatch& batch, const MachineRates& rates);
  Status Close();

 private:
  struct Files {
    CsvWriter csv;
    JsonlWriter jsonl;
    std::string utc_time;
    std::string commit;
  };

  explicit ClosedResults(std::optional<Files> files) : files_(std::move(files)) {}

  std::optional<Files> files_;
};

}  // namespace decant
