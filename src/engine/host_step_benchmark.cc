#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "engine/packing_runner.h"
#include "engine/test_engine.h"

namespace decant {
namespace {

/// The median of the loop's own work, in seconds, over the steps of one kind in which three
/// quarters of `rows` rows have work at least; absent without such steps. A busy machine takes the
/// loop off its processor at times, which the median does not see.
std::optional<double> MedianHostSeconds(const std::vector<StepRecord>& steps, int32_t rows,
                                        bool pure_decode) {
  std::vector<double> seconds;
  for (const StepRecord& step : steps) {
    if (4 * step.rows < 3 * rows || step.pure_decode() != pure_decode) continue;
    seconds.push_back(step.host() + step.wait);
  }
  if (seconds.empty()) return std::nullopt;
  const auto middle = seconds.begin() + std::ssize(seconds) / 2;
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

/// The host's part of a step in which `rows` rows generate, and of one that computes 512 prompt
/// tokens besides: planning, packing, draws, commit, text and sinks. An iteration is one run; its
/// time is that of a step, the median.
void BM_HostStep(benchmark::State& state, bool pure_decode) {
  const auto rows = static_cast<int32_t>(state.range(0));
  const auto engine = MakePackingEngine(rows, 512, MakeTestTokenizer());
  for ([[maybe_unused]] const auto& _ : state) {
    const uint64_t before = engine->Stats().steps();
    std::atomic<bool> all_here = false;  // Steps take so little that the first would end before.
    for (int32_t i = 0; i < (pure_decode ? rows : 2 * rows); ++i) {
      GenerateRequest request{.prompt = std::vector<Token>(512, 1),
                              .max_new_tokens = rows + 100,
                              .ignore_end_of_text = true};
      request.sink = [&all_here](const StreamUpdate& update) {
        benchmark::DoNotOptimize(update.token);
        while (!all_here) std::this_thread::yield();
      };
      if (!engine->Submit(std::move(request)).ok()) return state.SkipWithError("refused");
    }
    all_here = true;
    while (engine->Stats().running > 0 || engine->Stats().waiting > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const std::optional<double> seconds =
        MedianHostSeconds(engine->StepsSince(before, 1 << 20), rows, pure_decode);
    if (!seconds) return state.SkipWithError("no such step");
    state.SetIterationTime(*seconds);
  }
}
BENCHMARK_CAPTURE(BM_HostStep, decode, true)
    ->Arg(32)
    ->Arg(256)
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(BM_HostStep, loaded, false)
    ->Arg(32)
    ->Arg(256)
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace decant
