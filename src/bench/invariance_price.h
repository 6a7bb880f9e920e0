#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "bench/arrivals.h"
#include "bench/workload.h"
#include "engine/engine.h"

namespace decant {

/// What the price of the same bits in every batch is measured by.
enum class PriceMeasure {
  kClosed,      ///< A closed run, to its last request.
  kServed,      ///< Requests a second of arrivals, to the last completion.
  kGap,         ///< Median gap between a request's tokens, of the same arrivals.
  kPureDecode,  ///< Median pure decode step of the closed run's largest batches.
};

inline constexpr size_t kPriceMeasures = 4;

/// How a measure is called in rows of results, and in which unit.
struct PriceMeasureName {
  std::string_view name;
  std::string_view unit;
  bool more_is_better;
};
PriceMeasureName NameOf(PriceMeasure measure);

/// One path's figures, by PriceMeasure, in their units.
using PathFigures = std::array<double, kPriceMeasures>;

/// Of how many times as long the invariant path takes, or how many times as much the fastest path
/// serves: above 1 where invariance costs.
double PriceRatio(PriceMeasure measure, const PathFigures& invariant, const PathFigures& fastest);

/// What an engine is measured with.
struct PriceLoad {
  Workload closed{};
  Traffic arrivals{};
  int32_t runs = 1;  ///< Closed runs that count, after one that does not; their median is taken.
};

/// Measures an idle engine. `on_token` is called for each token of the closed runs, `on_end` for
/// each request of the arrivals. Errors: those of RunClosed and RunArrivals; internal when no step
/// of the closed runs was a pure decode step.
Expected<PathFigures> MeasurePath(Engine& engine, const PriceLoad& load,
                                  const std::function<void()>& on_token,
                                  const std::function<void()>& on_end);

/// Median duration, in seconds, of the pure decode steps that have the most rows; NaN where there
/// is no pure decode step.
double FullPureDecodeMedian(std::span<const StepRecord> steps);

}  // namespace decant
