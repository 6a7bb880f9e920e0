#include "apps/step_columns.h"

#include <limits>

namespace decant {
namespace {

void AppendCells(const std::optional<StepSummary>& summary, std::vector<CsvCell>& cells) {
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  constexpr double kMilli = 1e3;
  cells.emplace_back(summary ? summary->steps : 0);
  cells.emplace_back(summary ? summary->median * kMilli : kMissing);
  cells.emplace_back(summary ? summary->p99 * kMilli : kMissing);
  cells.emplace_back(summary ? summary->floor * kMilli : kMissing);
}

}  // namespace

std::vector<std::string> StepColumns() {
  return {"decode_steps", "decode_p50_ms", "decode_p99_ms", "decode_floor_ms",
          "loaded_steps", "loaded_p50_ms", "loaded_p99_ms", "loaded_floor_ms"};
}

std::vector<CsvCell> StepCells(const StepSummaries& steps) {
  std::vector<CsvCell> cells;
  AppendCells(steps.pure_decode, cells);
  AppendCells(steps.loaded, cells);
  return cells;
}

void AddSteps(const StepSummaries& steps, JsonObject& object) {
  if (steps.pure_decode) object.Add("pure_decode", ToJson(*steps.pure_decode));
  if (steps.loaded) object.Add("loaded", ToJson(*steps.loaded));
}

}  // namespace decant
