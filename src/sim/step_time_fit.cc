#include "sim/step_time_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "bench/quantile.h"
#include "sim/least_squares.h"

namespace decant {
namespace {

constexpr std::array<int32_t, 6> kTokenKnots = {1, 32, 64, 128, 256, 512};

using Pick = std::function<double(const MeasuredStep&)>;
using Predict = std::function<double(const MeasuredStep&)>;

/// The share of `tokens` that falls to each knot when a line joins neighbours.
std::vector<double> Hats(const std::vector<int32_t>& knots, int32_t tokens) {
  std::vector<double> hats(knots.size());
  const auto above = std::ranges::lower_bound(knots, tokens);
  if (above == knots.begin() || above == knots.end()) {
    hats[above == knots.end() ? knots.size() - 1 : 0] = 1;
    return hats;
  }
  const auto right = static_cast<size_t>(above - knots.begin());
  const double share = static_cast<double>(tokens - knots[right - 1]) /
                       static_cast<double>(knots[right] - knots[right - 1]);
  hats[right - 1] = 1 - share;
  hats[right] = share;
  return hats;
}

std::vector<LinearPoint> FitLinear(std::span<const MeasuredSteps> runs) {
  int32_t most = 1;
  for (const MeasuredSteps& run : runs) {
    for (const MeasuredStep& step : run.steps) most = std::max(most, step.work.tokens());
  }
  std::vector<int32_t> knots;
  for (const int32_t knot : kTokenKnots) {
    // The last two give the slope beyond: they must not lie close together.
    if (int64_t{knot} * 8 < int64_t{most} * 7) knots.push_back(knot);
  }
  knots.push_back(most);
  LeastSquares squares(knots.size());
  for (const MeasuredSteps& run : runs) {
    for (const MeasuredStep& step : run.steps) {
      squares.Add(Hats(knots, step.work.tokens()), step.linear);
    }
  }
  const std::vector<double> seconds = squares.Solve();
  std::vector<LinearPoint> points;
  for (size_t i = 0; i < knots.size(); ++i) {
    // A knot that no step is near has no figure; its neighbours are joined past it.
    if (seconds[i] > 0) points.push_back({.tokens = knots[i], .seconds = seconds[i]});
  }
  return points;
}

void FitPromptAttention(std::span<const MeasuredSteps> runs, StepTimeParameters& device) {
  LeastSquares squares(3);
  for (const MeasuredSteps& run : runs) {
    for (const MeasuredStep& step : run.steps) {
      if (step.work.prompt_tokens == 0) continue;
      squares.Add(std::array{1.0, static_cast<double>(step.work.longest_prompt_context),
                             step.work.prompt_pairs},
                  step.prompt_attention);
    }
  }
  const std::vector<double> weights = squares.Solve();
  device.prompt_seconds = weights[0];
  device.prompt_longest_seconds = weights[1];
  device.prompt_pair_seconds = weights[2];
}

void FitRest(std::span<const MeasuredSteps> runs, StepTimeParameters& device) {
  LeastSquares squares(3);
  for (const MeasuredSteps& run : runs) {
    for (const MeasuredStep& step : run.steps) {
      squares.Add(std::array{1.0, static_cast<double>(step.work.rows),
                             step.work.prompt_tokens > 0 ? 1.0 : 0.0},
                  step.rest);
    }
  }
  const std::vector<double> weights = squares.Solve();
  device.step_seconds = weights[0];
  device.row_seconds = weights[1];
  device.loaded_seconds = weights[2];
}

/// Pure decode steps alone: in loaded ones the prompt's kernel may run beside this one.
DecodeAttentionTime FitDecode(SimulatedKernel kernel, std::span<const MeasuredSteps* const> runs,
                              int32_t multiprocessors, int32_t kv_heads) {
  enum Term { kStep, kRow, kLongest, kSlice, kWave, kPosition, kTerms };
  LeastSquares squares(kTerms);
  for (const MeasuredSteps* run : runs) {
    for (const MeasuredStep& step : run->steps) {
      const StepWork& work = step.work;
      if (work.prompt_tokens > 0 || work.decode_tokens == 0) continue;
      std::array<double, kTerms> values{};
      values[kStep] = 1;
      values[kRow] = work.decode_tokens;
      values[kPosition] = static_cast<double>(work.decode_positions);
      if (kernel == SimulatedKernel::kRows) values[kLongest] = work.longest_decode_context;
      if (kernel == SimulatedKernel::kFlash) {
        const FlashSlices slices = SlicesOf(work, multiprocessors, kv_heads);
        values[kSlice] = slices.positions;
        values[kWave] = static_cast<double>(slices.positions) * (slices.waves - 1);
      }
      squares.Add(values, step.decode_attention);
    }
  }
  const std::vector<double> weights = squares.Solve();
  return {.kernel = kernel,
          .step_seconds = weights[kStep],
          .row_seconds = weights[kRow],
          .longest_seconds = weights[kLongest],
          .slice_seconds = weights[kSlice],
          .wave_seconds = weights[kWave],
          .position_seconds = weights[kPosition]};
}

void FitHost(std::span<const HostPoint> points, StepTimeParameters& device) {
  LeastSquares squares(2);
  for (const HostPoint& point : points) {
    squares.Add(std::array{1.0, static_cast<double>(point.rows)}, point.seconds);
  }
  const std::vector<double> weights = squares.Solve();
  device.host_seconds = weights[0];
  device.host_row_seconds = weights[1];
}

/// Adds the residual of the steps for which `measured` is above 0.
void AddResidual(std::string what, const MeasuredSteps& run, const Pick& measured,
                 const Predict& predicted, std::vector<FitResidual>& residuals) {
  std::vector<double> seen;
  std::vector<double> computed;
  std::vector<double> errors;
  for (const MeasuredStep& step : run.steps) {
    const double seconds = measured(step);
    if (seconds <= 0) continue;
    seen.push_back(seconds);
    computed.push_back(predicted(step));
    errors.push_back(std::abs(computed.back() / seconds - 1));
  }
  if (seen.empty()) return;
  residuals.push_back({.what = std::move(what),
                       .steps = std::ssize(seen),
                       .measured = Median(seen),
                       .predicted = Median(computed),
                       .median_error = Median(errors),
                       .p90_error = Quantile(errors, 0.9)});
}

Status AddResiduals(const MeasuredSteps& run, bool attention_only, StepTimeFit& fit) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(fit.parameters, run.kernel, run.page_size));
  const auto add = [&](const char* what, const Pick& measured,
                       const std::function<double(const StepTime&)>& part) {
    AddResidual(
        fmt::format("{}: {}", run.name, what), run, measured,
        [&](const MeasuredStep& step) { return part(model.Of(step.work)); }, fit.residuals);
  };
  const auto pure = [](const MeasuredStep& step) { return step.work.prompt_tokens == 0; };
  const auto device = [](const MeasuredStep& step) {
    return step.linear + step.prompt_attention + step.decode_attention + step.rest;
  };
  add(
      "decode attention",
      [&](const MeasuredStep& step) { return pure(step) ? step.decode_attention : 0; },
      [](const StepTime& time) { return time.decode_attention; });
  if (attention_only) return Status();
  add(
      "prompt attention", [](const MeasuredStep& step) { return step.prompt_attention; },
      [](const StepTime& time) { return time.prompt_attention; });
  add(
      "linear layers", [](const MeasuredStep& step) { return step.linear; },
      [](const StepTime& time) { return time.linear; });
  add(
      "the rest", [](const MeasuredStep& step) { return step.rest; },
      [](const StepTime& time) { return time.rest; });
  add(
      "pure decode steps", [&](const MeasuredStep& step) { return pure(step) ? device(step) : 0; },
      [](const StepTime& time) { return time.device(); });
  add(
      "loaded steps", [&](const MeasuredStep& step) { return pure(step) ? 0 : device(step); },
      [](const StepTime& time) { return time.device(); });
  return Status();
}

}  // namespace

Expected<StepTimeFit> FitStepTimes(const StepTimeFitOptions& options) {
  if (options.steps.empty()) return InvalidArgument("no measured steps to fit to");
  const MeasuredSteps& first = options.steps.front();
  StepTimeFit fit;
  StepTimeParameters& device = fit.parameters;
  device = {.device = first.device, .model = first.model};
  device.multiprocessors = options.multiprocessors;
  device.kv_heads = options.kv_heads;
  device.pool_slots = options.pool_slots;
  std::vector<const MeasuredSteps*> runs;
  for (const auto& list : {options.steps, options.attention_only}) {
    for (const MeasuredSteps& run : list) {
      if (run.device != first.device || run.model != first.model) {
        return InvalidArgument("steps of {} on {} and of {} on {}: allowed is one of each",
                               first.model, first.device, run.model, run.device);
      }
      runs.push_back(&run);
    }
  }
  device.linear = FitLinear(options.steps);
  FitPromptAttention(options.steps, device);
  FitRest(options.steps, device);
  for (const SimulatedKernel kernel :
       {SimulatedKernel::kRows, SimulatedKernel::kFlash, SimulatedKernel::kSplit}) {
    std::vector<const MeasuredSteps*> of_kernel;
    std::ranges::copy_if(runs, std::back_inserter(of_kernel),
                         [kernel](const MeasuredSteps* run) { return run->kernel == kernel; });
    if (of_kernel.empty()) continue;
    device.decode.push_back(
        FitDecode(kernel, of_kernel, options.multiprocessors, options.kv_heads));
  }
  FitHost(options.host, device);
  for (const MeasuredSteps& run : options.steps) {
    DECANT_RETURN_IF_ERROR(AddResiduals(run, false, fit));
  }
  for (const MeasuredSteps& run : options.attention_only) {
    DECANT_RETURN_IF_ERROR(AddResiduals(run, true, fit));
  }
  return fit;
}

}  // namespace decant
