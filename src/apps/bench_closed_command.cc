#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/chunk_name.h"
#include "apps/closed_results.h"
#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/engine_sweep.h"
#include "apps/workload_flags.h"
#include "base/log.h"
#include "base/progress.h"
#include "bench/closed_run.h"
#include "bench/machine_probe.h"
#include "bench/prompt_alphabet.h"
#include "bench/step_summary.h"
#include "bench/token_rows.h"
#include "bench/workload.h"

namespace decant {
namespace {

struct ClosedFlags {
  EngineFlags engine{};
  EngineSweep sweep{};
  WorkloadFlags workload{};
  std::vector<int32_t> batch_sizes = {8, 32};
  int32_t warm_ups = 2;
  int32_t runs = 5;
  bool tokens = false;
  std::string out{};
};

/// What the flags ask for, read.
struct ClosedPlan {
  std::vector<NamedWorkload> workloads{};
  std::vector<EngineOptions> engines{};
};

Expected<ClosedPlan> ReadFlags(const ClosedFlags& flags) {
  ClosedPlan plan;
  DECANT_ASSIGN_OR_RETURN(plan.workloads, ReadWorkloads(flags.workload));
  DECANT_ASSIGN_OR_RETURN(plan.engines, ToEngineSweep(flags.engine, flags.sweep));
  return plan;
}

/// Takes the measurements of one command and keeps what it needs for the tables at the end.
class ClosedBench {
 public:
  ClosedBench(const ClosedFlags& flags, const ClosedPlan& plan, ClosedResults results,
              std::optional<TokenFile> tokens)
      : flags_(flags), plan_(plan), results_(std::move(results)), tokens_(std::move(tokens)) {}

  /// All workloads and batch sizes on one engine.
  Status RunEngine(const EngineOptions& options) {
    DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
    if (rates_.bytes_per_second == 0) {
      rates_ = MeasureRates(served->ops());
      LogInfo("memory reads {:.1f} GB/s, matrix products {:.0f} GFLOP/s",
              rates_.bytes_per_second * 1e-9, rates_.operations_per_second * 1e-9);
    }
    const std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());
    for (const NamedWorkload& named : plan_.workloads) {
      for (const int32_t batch_size : flags_.batch_sizes) {
        const Workload workload = MakeWorkload(named.name, named.options, batch_size, alphabet);
        DECANT_RETURN_IF_ERROR(RunBatch(*served, options, workload, named.options));
      }
    }
    return Status();
  }

  Status Finish() {
    std::printf("\n%s\n%s", WallTable(batches_).c_str(), StepTable(StepsOf(batches_)).c_str());
    std::printf(
        "\nfloor: bytes at %.1f GB/s read from memory, operations at %.0f GFLOP/s, both "
        "measured here just now\n",
        rates_.bytes_per_second * 1e-9, rates_.operations_per_second * 1e-9);
    if (tokens_) DECANT_RETURN_IF_ERROR(tokens_->Close());
    return results_.Close();
  }

 private:
  Status RunBatch(ServedModel& served, const EngineOptions& options, const Workload& workload,
                  const WorkloadOptions& drawn) {
    ClosedBatch batch{.workload = workload.name,
                      .seed = drawn.seed,
                      .one_of_seeds = plan_.workloads.size() > 1,
                      .batch_size = static_cast<int32_t>(workload.items.size()),
                      .max_batch = options.max_batch,
                      .chunk_tokens = ChunkName(options),
                      .page_size = options.page_size,
                      .decode_kernel = std::string(DecodeKernelName(options.decode_kernel)),
                      .prompt_tokens = workload.prompt_tokens(),
                      .generated_tokens = workload.budget_tokens()};
    const int32_t all = flags_.warm_ups + flags_.runs;
    Progress progress(batch.Label(), batch.generated_tokens * all, "tokens");
    std::vector<StepRecord> steps;
    for (int32_t run = 1; run <= all; ++run) {
      const bool warm_up = run <= flags_.warm_ups;
      progress.SetNote(warm_up ? fmt::format("warm-up {} of {}", run, flags_.warm_ups)
                               : fmt::format("run {} of {}", run - flags_.warm_ups, flags_.runs));
      DECANT_ASSIGN_OR_RETURN(const ClosedRun result,
                              RunClosed(served.engine(), workload, [&] { progress.Advance(1); }));
      if (warm_up) continue;
      steps.insert(steps.end(), result.steps.begin(), result.steps.end());
      batch.runs.push_back(result.wall_seconds);
      DECANT_RETURN_IF_ERROR(results_.AddRun(batch, result, SummarizeSteps(result.steps, rates_)));
      if (batch.runs.size() == 1) {
        DECANT_RETURN_IF_ERROR(AddTokens(batch, options, workload, drawn, result));
      }
    }
    progress.Finish();
    batch.steps = SummarizeSteps(steps, rates_);
    std::printf("%s\n", batch.Line().c_str());
    std::fflush(stdout);
    DECANT_RETURN_IF_ERROR(results_.AddBatch(batch, rates_));
    batches_.push_back(std::move(batch));
    return Status();
  }

  Status AddTokens(const ClosedBatch& batch, const EngineOptions& options, const Workload& workload,
                   const WorkloadOptions& drawn, const ClosedRun& result) {
    if (!tokens_) return Status();
    const TokenRun run{.workload = batch.workload,
                       .options = drawn,
                       .load = fmt::format("batch of {}", batch.batch_size),
                       .decode_kernel = batch.decode_kernel,
                       .page_size = batch.page_size,
                       .max_batch = batch.max_batch,
                       .chunk_tokens = options.chunk_tokens};
    for (size_t i = 0; i < workload.items.size(); ++i) {
      DECANT_RETURN_IF_ERROR(tokens_->Add(run, static_cast<int32_t>(i), workload.items[i].prompt,
                                          result.requests[i].tokens));
    }
    return Status();
  }

  const ClosedFlags& flags_;
  const ClosedPlan& plan_;
  ClosedResults results_;
  std::optional<TokenFile> tokens_;
  MachineRates rates_;
  std::vector<ClosedBatch> batches_;
};

Status BenchClosed(const ClosedFlags& flags, std::span<const char* const> command) {
  if (flags.tokens && flags.out.empty()) {
    return InvalidArgument("--tokens needs --out, the folder that tokens.jsonl goes to");
  }
  DECANT_ASSIGN_OR_RETURN(const ClosedPlan plan, ReadFlags(flags));
  const RunHeader header = MakeRunHeader(command, plan.workloads.front().options.seed);
  DECANT_ASSIGN_OR_RETURN(ClosedResults results, ClosedResults::Open(flags.out, header));
  std::optional<TokenFile> tokens;
  if (flags.tokens) {
    DECANT_ASSIGN_OR_RETURN(tokens, TokenFile::Open(flags.out, header));
  }
  ClosedBench bench(flags, plan, std::move(results), std::move(tokens));
  for (const EngineOptions& options : plan.engines) {
    DECANT_RETURN_IF_ERROR(bench.RunEngine(options));
  }
  return bench.Finish();
}

}  // namespace

Command AddBenchClosedCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "closed", "Hand the engine whole batches at time zero; time each to its LAST request");
  const auto flags = std::make_shared<ClosedFlags>();
  AddEngineSweep(app, flags->engine, flags->sweep);
  AddWorkloadFlags(app, flags->workload);
  app.add_option("--batch-size", flags->batch_sizes, "Requests in a batch; a list is run in turn")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->type_name("N,...");
  app.add_option("--warm-ups", flags->warm_ups, "Runs before those that count")
      ->capture_default_str()
      ->check(CLI::Range(0, 1000))
      ->type_name("N");
  app.add_option("--runs", flags->runs, "Runs that count; the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_option(
         "--out", flags->out,
         "Folder for the raw rows: adds to runs.csv (a line a run) and runs.jsonl (a header "
         "of machine, commit, flags and seed; a line a run; a line a batch)")
      ->type_name("DIR");
  app.add_flag("--tokens", flags->tokens,
               "Also add to tokens.jsonl what each request of a batch's first run that counts got, "
               "for decant parity");
  app.footer(
      "Examples:\n"
      "  decant bench closed --model M.gguf --mixed-seed 0 --batch-size 8,32\n"
      "  decant bench closed --model M.gguf --prompts p256 --batch-size 8,32 --out results/cpu\n"
      "  decant bench closed --model M.gguf --scale 0.25 --batch-size 32 --max-batch 8,32 \\\n"
      "    --decode-kernel rows,split\n"
      "Two requests of one seed are the same whatever the batch; every budget is used to its end.\n"
      "The floor of a step is the longer of: the bytes it must read over this machine's measured\n"
      "memory bandwidth, its operations over the measured rate of a large matrix product.");
  return {.app = &app, .run = [flags, command] { return BenchClosed(*flags, command); }};
}

}  // namespace decant
