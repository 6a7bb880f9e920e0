#include "bench/compare_case.h"

#include <algorithm>
#include <array>

#include "base/narrow.h"
#include "bench/closed_run.h"
#include "bench/workload.h"

namespace decant {
namespace {

constexpr std::array<CompareCase, 6> kCases = {{
    {.name = "prefill_512", .context = 512},
    {.name = "prefill_2048", .context = 2048},
    {.name = "decode32_at512", .rows = 32, .context = 512, .steps = 32},
    {.name = "decode8_at512", .rows = 8, .context = 512, .steps = 32},
    {.name = "decode1_at512", .rows = 1, .context = 512, .steps = 64},
    {.name = "decode1_at0", .rows = 1, .context = 0, .steps = 64},
}};

}  // namespace

int32_t CompareCase::chunk_tokens(int32_t at_least) const {
  return prefill() ? at_least : std::max(at_least, rows * context);
}

std::span<const CompareCase> CompareCases() { return kCases; }

Expected<CompareCase> FindCompareCase(std::string_view name) {
  std::string names;
  for (const CompareCase& known : kCases) {
    if (known.name == name) return known;
    names += names.empty() ? "" : ", ";
    names += known.name;
  }
  return InvalidArgument("there is no case '{}'; the cases are {}", name, names);
}

Expected<double> RunCompareCase(Engine& engine, const CompareCase& compare,
                                std::span<const Token> alphabet, uint64_t seed) {
  // A context of n is n prompt tokens; the step that reads them gives the first token, which the
  // first measured step then computes at position n. Without a context the prompt is that token.
  const bool context_first = !compare.prefill() && compare.context > 0;
  const int32_t prompt_length = std::max(compare.context, 1);
  const int32_t budget = compare.prefill() ? 1 : compare.steps + (context_first ? 1 : 0);
  const Workload workload = MakeWorkload(
      std::string(compare.name),
      {.prompt_lengths = {prompt_length}, .min_budget = budget, .max_budget = budget, .seed = seed},
      compare.max_batch(), alphabet);
  DECANT_ASSIGN_OR_RETURN(const ClosedRun run, RunClosed(engine, workload, [] {}));

  if (!context_first) {
    const int32_t tokens = compare.prefill() ? compare.context : compare.steps;
    return tokens / run.wall_seconds;
  }
  // The batch may reach the engine in two parts, so that some rows are a step ahead of the others;
  // what is measured is the steps that have all of them.
  double seconds = 0;
  int64_t tokens = 0;
  for (const StepRecord& step : run.steps) {
    if (!step.pure_decode() || step.rows != compare.rows) continue;
    seconds += step.duration;
    tokens += step.decode_tokens;
  }
  if (tokens == 0) return Error(StatusCode::kInternal, "no step of {} had all rows", compare.name);
  return static_cast<double>(tokens) / seconds;
}

}  // namespace decant
