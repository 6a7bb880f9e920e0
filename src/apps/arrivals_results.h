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
#include "bench/arrivals_run.h"
#include "bench/saturation.h"
#include "bench/step_summary.h"

namespace decant {

/// What an open run was measured with.
struct ArrivalsSetup {
  std::string device{};  ///< DeviceName.
  std::string model{};
  std::string workload{};
  uint64_t seed = 0;          ///< Of the prompts and budgets.
  bool one_of_seeds = false;  ///< Whether the label names it.
  uint64_t arrival_seed = 0;  ///< Of the arrivals, unless they are a trace's.
  std::string engine{};       ///< Preset::name
  std::string decode_kernel{};
  int32_t page_size = 0;
  int32_t pages = 0;  ///< Of the pool.
  int32_t max_batch = 0;
  std::string chunk_tokens{};  ///< ChunkName.

  /// "decant, 32 rows, split", how chunks are chosen where they are, and the seed where there are
  /// several.
  std::string Label() const;
};

/// One rate on one engine: what was measured, and with what.
struct ArrivalsPoint {
  ArrivalsSetup setup{};
  std::string trace{};  ///< "azure.csv x2": the file and its speed-up; empty: drawn arrivals.
  double rate = 0;      ///< As asked for; of a trace the offered one. Requests a second.
  double offered = 0;   ///< Traffic::OfferedRate.
  int32_t left_out = 0;
  ArrivalsSummary summary{};
  StepSummaries steps{};

  /// "rate 4, decant, 32 rows, split".
  std::string Label() const;
  /// Label and the figures that matter most.
  std::string Line() const;
};

/// For people: a line a point.
std::string ArrivalsTable(std::span<const ArrivalsPoint> points);

std::vector<LabelledSteps> StepsOf(std::span<const ArrivalsPoint> points);

/// The curve of points on one engine.
std::vector<RatePoint> CurveOf(std::span<const ArrivalsPoint> points);

/// For people: the highest served rate of one engine's points, and whether that is its capacity.
std::string SaturationSentence(std::span<const ArrivalsPoint> points);

/// The files of results: arrivals.csv and arrivals.jsonl in one folder, both added to. A point
/// stands there as soon as it is done, whatever happens later.
class ArrivalsResults {
 public:
  /// An empty `folder`: nothing is written.
  static Expected<ArrivalsResults> Open(const std::string& folder, const RunHeader& header);

  Status AddPoint(const ArrivalsPoint& point, const MachineRates& rates);
  /// Where the curve of one engine's points saturates.
  Status AddSaturation(std::span<const ArrivalsPoint> points);
  Status Close();

 private:
  struct Files {
    CsvWriter csv;
    JsonlWriter jsonl;
    std::string utc_time;
    std::string commit;
  };

  explicit ArrivalsResults(std::optional<Files> files) : files_(std::move(files)) {}

  std::optional<Files> files_;
};

}  // namespace decant
