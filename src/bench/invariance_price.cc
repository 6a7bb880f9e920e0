#include "bench/invariance_price.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/arrivals_run.h"
#include "bench/closed_run.h"
#include "bench/quantile.h"

namespace decant {
namespace {

constexpr double kMilli = 1e3;

size_t Place(PriceMeasure measure) { return static_cast<size_t>(measure); }

}  // namespace

PriceMeasureName NameOf(PriceMeasure measure) {
  switch (measure) {
    case PriceMeasure::kClosed:
      return {"closed", "s", false};
    case PriceMeasure::kServed:
      return {"served", "requests/s", true};
    case PriceMeasure::kGap:
      return {"token_gap", "ms", false};
    case PriceMeasure::kPureDecode:
      break;
  }
  return {"pure_decode", "ms", false};
}

double PriceRatio(PriceMeasure measure, const PathFigures& invariant, const PathFigures& fastest) {
  const double ratio = invariant[Place(measure)] / fastest[Place(measure)];
  return NameOf(measure).more_is_better ? 1 / ratio : ratio;
}

double FullPureDecodeMedian(std::span<const StepRecord> steps) {
  int32_t most = 0;
  for (const StepRecord& step : steps) {
    if (step.pure_decode()) most = std::max(most, step.rows);
  }
  std::vector<double> durations;
  for (const StepRecord& step : steps) {
    if (step.pure_decode() && step.rows == most) durations.push_back(step.duration);
  }
  return durations.empty() ? std::numeric_limits<double>::quiet_NaN() : Median(durations);
}

Expected<PathFigures> MeasurePath(Engine& engine, const PriceLoad& load,
                                  const std::function<void()>& on_token,
                                  const std::function<void()>& on_end) {
  DECANT_RETURN_IF_ERROR(RunClosed(engine, load.closed, on_token).status());
  std::vector<double> walls;
  std::vector<StepRecord> steps;
  for (int32_t run = 0; run < load.runs; ++run) {
    DECANT_ASSIGN_OR_RETURN(const ClosedRun closed, RunClosed(engine, load.closed, on_token));
    walls.push_back(closed.wall_seconds);
    steps.insert(steps.end(), closed.steps.begin(), closed.steps.end());
  }
  const double pure_decode = FullPureDecodeMedian(steps);
  if (std::isnan(pure_decode)) {
    return Error(StatusCode::kInternal, "no step of {} was a pure decode step", load.closed.name);
  }
  DECANT_ASSIGN_OR_RETURN(const ArrivalsRun run, RunArrivals(engine, load.arrivals, on_end));
  const ArrivalsSummary summary = SummarizeArrivals(load.arrivals, run);
  PathFigures figures{};
  figures[Place(PriceMeasure::kClosed)] = Median(walls);
  figures[Place(PriceMeasure::kServed)] = summary.served_rate;
  figures[Place(PriceMeasure::kGap)] = summary.gap.value_or(Spread{}).median * kMilli;
  figures[Place(PriceMeasure::kPureDecode)] = pure_decode * kMilli;
  return figures;
}

}  // namespace decant
