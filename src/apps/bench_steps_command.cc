#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/chunk_name.h"
#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/steps_results.h"
#include "apps/workload_flags.h"
#include "base/progress.h"
#include "bench/closed_run.h"
#include "bench/prompt_alphabet.h"
#include "bench/step_trace.h"
#include "bench/timed_ops.h"
#include "bench/workload.h"
#include "engine/preset.h"

namespace decant {
namespace {

struct StepsFlags {
  EngineFlags engine{};
  WorkloadFlags workload{};
  int32_t requests = 64;
  int32_t warm_ups = 1;
  int32_t runs = 3;
  std::string out{};
};

/// The runs of one command on one engine: plain and timed ones in turn.
class StepsBench {
 public:
  StepsBench(const StepsFlags& flags, ServedModel& served, TimedOps& ops, StepsSetting setting,
             StepsResults results)
      : flags_(flags),
        served_(served),
        ops_(ops),
        setting_(std::move(setting)),
        results_(std::move(results)),
        rates_(MeasureRates(ops)) {}

  Status Run(const Workload& workload) {
    Progress progress(fmt::format("{} requests, {} rows", flags_.requests, setting_.max_batch),
                      workload.budget_tokens() * (flags_.warm_ups + 2 * flags_.runs), "tokens");
    const auto on_token = [&] { progress.Advance(1); };
    for (int32_t run = 1; run <= flags_.warm_ups; ++run) {
      progress.SetNote(fmt::format("warm-up {} of {}", run, flags_.warm_ups));
      DECANT_RETURN_IF_ERROR(RunClosed(served_.engine(), workload, on_token).status());
    }
    std::vector<RequestTimes> requests;
    std::vector<StepRecord> plain_steps;
    std::vector<TracedStep> steps;
    for (int32_t run = 1; run <= flags_.runs; ++run) {
      progress.SetNote(fmt::format("plain run {} of {}", run, flags_.runs));
      DECANT_ASSIGN_OR_RETURN(ClosedRun plain, RunClosed(served_.engine(), workload, on_token));
      outcome_.plain_walls.push_back(plain.wall_seconds);
      std::ranges::move(plain.requests, std::back_inserter(requests));
      std::ranges::move(plain.steps, std::back_inserter(plain_steps));

      progress.SetNote(fmt::format("timed run {} of {}", run, flags_.runs));
      DECANT_ASSIGN_OR_RETURN(TracedRun timed,
                              RunTraced(served_.engine(), ops_, workload, on_token));
      outcome_.timed_walls.push_back(timed.wall_seconds);
      DECANT_RETURN_IF_ERROR(results_.AddRun(setting_, run, timed.steps, rates_));
      last_run_ = timed.steps.size();
      std::ranges::move(timed.steps, std::back_inserter(steps));
    }
    outcome_.gaps = SummarizeGaps(requests);
    outcome_.idle = SummarizeIdle(plain_steps);
    outcome_.host = SummarizeHost(plain_steps);
    outcome_.steps = SummarizeTrace(steps, rates_);
    return results_.Close(setting_, outcome_, std::span(steps).last(last_run_), rates_);
  }

  void Print() const {
    std::printf("%s", PartTable(outcome_.steps).c_str());
    if (outcome_.steps.loaded && outcome_.steps.loaded->decode_share > 0) {
      std::printf(
          "attention: this device runs both kernels at once in loaded steps; decode tokens have "
          "%.1f%% of its pairs of a query and a key\n",
          outcome_.steps.loaded->decode_share * 100);
    }
    std::printf("\n%s\n%s%s%s", WallText(outcome_).c_str(), GapText(outcome_.gaps).c_str(),
                IdleText(outcome_.idle).c_str(), HostText(outcome_.host).c_str());
    std::printf(
        "floor: bytes at %.1f GB/s read from memory, operations at %.0f GFLOP/s, both measured "
        "here just now\n",
        rates_.bytes_per_second * 1e-9, rates_.operations_per_second * 1e-9);
  }

 private:
  const StepsFlags& flags_;
  ServedModel& served_;
  TimedOps& ops_;
  const StepsSetting setting_;
  StepsResults results_;
  const MachineRates rates_;
  StepsOutcome outcome_;
  size_t last_run_ = 0;  ///< Steps of the last timed run.
};

Status BenchSteps(const StepsFlags& flags, std::span<const char* const> command) {
  DECANT_ASSIGN_OR_RETURN(const NamedWorkload named, ReadWorkload(flags.workload));
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  DECANT_ASSIGN_OR_RETURN(const Preset preset, FindPreset(flags.engine.preset, options.device));
  const RunHeader header = MakeRunHeader(command, named.options.seed);
  DECANT_ASSIGN_OR_RETURN(StepsResults results, StepsResults::Open(flags.out, header));
  TimedOps* timed = nullptr;
  options.wrap_ops = [&timed](std::unique_ptr<Ops> ops, const DecoderShape&) {
    auto wrapped = std::make_unique<TimedOps>(std::move(ops));
    timed = wrapped.get();
    return wrapped;
  };
  DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
  const Workload workload =
      MakeWorkload(named.name, named.options, flags.requests, PromptAlphabet(served->tokenizer()));
  StepsBench bench(flags, *served, *timed,
                   {.device = DeviceName(options.device),
                    .model = served->config().name,
                    .workload = named.name,
                    .seed = named.options.seed,
                    .engine = std::string(preset.name),
                    .decode_kernel = std::string(DecodeKernelName(options.decode_kernel)),
                    .page_size = options.page_size,
                    .max_batch = options.max_batch,
                    .chunk_tokens = ChunkName(options),
                    .requests = flags.requests},
                   std::move(results));
  DECANT_RETURN_IF_ERROR(bench.Run(workload));
  bench.Print();
  return Status();
}

}  // namespace

Command AddBenchStepsCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "steps", "Queue mixed requests through fewer rows; time every step part by part");
  const auto flags = std::make_shared<StepsFlags>();
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  AddWorkloadFlags(app, flags->workload);
  app.add_option("--requests", flags->requests,
                 "Requests, all queued at time zero; more than rows, so that admissions go on "
                 "while others generate")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--warm-ups", flags->warm_ups, "Plain runs before those that count")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000))
      ->type_name("N");
  app.add_option("--runs", flags->runs, "Plain runs and timed runs that count, in turn")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to steps.csv (a line a step of each timed run) and "
                 "steps.jsonl (a header; a summary), replaces trace.json (the last timed run, for "
                 "ui.perfetto.dev)")
      ->type_name("DIR");
  app.footer(
      "Examples:\n"
      "  decant bench steps --model M.gguf --out results/steps\n"
      "  decant bench steps --model M --engine flash --decode-kernel rows   # pages alone\n"
      "  decant bench steps --model M.gguf --scale 0.1 --requests 16 --max-batch 8 --runs 1\n"
      "Plain runs give wall times, token gaps, the host's part of a step and how long the device\n"
      "idles between steps, timed runs the parts of a step; both walls are printed, so that the\n"
      "cost of looking is known.\n"
      "Time stamps go into the device's own order of work and nothing waits for them. The\n"
      "floor of a step is the longer of: the bytes it must read over the measured memory\n"
      "bandwidth, its operations over the measured rate.");
  return {.app = &app, .run = [flags, command] { return BenchSteps(*flags, command); }};
}

}  // namespace decant
