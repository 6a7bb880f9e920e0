#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/arrivals_results.h"
#include "apps/chunk_name.h"
#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/engine_sweep.h"
#include "apps/workload_flags.h"
#include "base/narrow.h"
#include "base/progress.h"
#include "bench/arrivals.h"
#include "bench/arrivals_run.h"
#include "bench/closed_run.h"
#include "bench/machine_probe.h"
#include "bench/prompt_alphabet.h"
#include "bench/saturation.h"
#include "bench/token_rows.h"
#include "bench/trace_file.h"
#include "engine/preset.h"

namespace decant {
namespace {

constexpr double kMostRate = 1e6;  // requests a second, and speed-up
constexpr size_t kWarmUpRequests = 4;

struct ArrivalsFlags {
  EngineFlags engine{};
  EngineSweep sweep{};
  WorkloadFlags workload{};
  std::vector<std::string> rates{};
  double start_rate = 1;
  int32_t requests = 400;
  std::optional<uint64_t> arrival_seed{};
  std::string trace{};
  std::vector<double> speedups = {1};
  std::optional<int32_t> limit{};
  bool tokens = false;
  std::string out{};
};

/// What the flags ask for, read.
struct ArrivalsPlan {
  std::vector<EngineOptions> engines{};
  std::string preset{};
  std::string device{};
  std::vector<NamedWorkload> workloads{};
  std::vector<double> rates{};  ///< None: search for the capacity.
  std::vector<TraceRequest> trace{};
  int64_t prompt_tokens = 0;  ///< Of one run, at most.
  int64_t budget_tokens = 0;  ///< Likewise.
};

Status CheckRate(std::string_view flag, double rate) {
  if (rate > 0 && rate <= kMostRate) return Status();
  return InvalidArgument("{} has {}; allowed: above 0, at most {}", flag, rate, kMostRate);
}

/// No rates for "auto".
Expected<std::vector<double>> ReadRates(const std::vector<std::string>& texts) {
  std::vector<double> rates;
  if (texts == std::vector<std::string>{"auto"}) return rates;
  if (texts.empty()) {
    return InvalidArgument("--rates is missing: a list such as 1,2,4, or auto (or --trace FILE)");
  }
  for (const std::string& text : texts) {
    double rate = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
    if (error != std::errc() || end != text.data() + text.size()) {
      return InvalidArgument("--rates has '{}'; allowed: auto, or numbers such as 1,2.5,4", text);
    }
    DECANT_RETURN_IF_ERROR(CheckRate("--rates", rate));
    rates.push_back(rate);
  }
  return rates;
}

Status ReadTraffic(const ArrivalsFlags& flags, ArrivalsPlan& plan) {
  if (!flags.trace.empty()) {
    for (const double speedup : flags.speedups) {
      DECANT_RETURN_IF_ERROR(CheckRate("--speedup", speedup));
    }
    DECANT_ASSIGN_OR_RETURN(plan.trace, ReadTrace(flags.trace));
    const auto limit = static_cast<size_t>(flags.limit.value_or(1 << 30));
    plan.trace.resize(std::min(plan.trace.size(), limit));
    plan.workloads = {{.name = "trace", .options = {}}};
    for (const TraceRequest& request : plan.trace) {
      plan.prompt_tokens += request.prompt_tokens;
      plan.budget_tokens += request.output_tokens;
    }
    return Status();
  }
  DECANT_ASSIGN_OR_RETURN(plan.rates, ReadRates(flags.rates));
  DECANT_RETURN_IF_ERROR(CheckRate("--start-rate", flags.start_rate));
  DECANT_ASSIGN_OR_RETURN(plan.workloads, ReadWorkloads(flags.workload));
  // Lengths do not depend on the model's tokens.
  const std::vector<Token> alphabet = {0};
  for (const NamedWorkload& named : plan.workloads) {
    const Workload shape = MakeWorkload(named.name, named.options, flags.requests, alphabet);
    plan.prompt_tokens = std::max(plan.prompt_tokens, shape.prompt_tokens());
    plan.budget_tokens = std::max(plan.budget_tokens, shape.budget_tokens());
  }
  return Status();
}

Expected<ArrivalsPlan> ReadFlags(const ArrivalsFlags& flags) {
  ArrivalsPlan plan;
  DECANT_RETURN_IF_ERROR(ReadTraffic(flags, plan));
  DECANT_ASSIGN_OR_RETURN(plan.engines, ToEngineSweep(flags.engine, flags.sweep));
  const Device& device = plan.engines.front().device;
  DECANT_ASSIGN_OR_RETURN(const Preset preset, FindPreset(flags.engine.preset, device));
  plan.preset = preset.name;
  plan.device = DeviceName(device);
  // A step has a decode token, or it fills the chunk, or it ends a prompt.
  const int64_t requests = plan.trace.empty() ? flags.requests : std::ssize(plan.trace);
  const EngineOptions& first = plan.engines.front();
  const int64_t chunk = first.auto_chunk ? ChunkPolicy::kGrain : std::max(first.chunk_tokens, 1);
  const int64_t most_steps = plan.budget_tokens + plan.prompt_tokens / chunk + requests;
  for (EngineOptions& engine : plan.engines) engine.step_history = static_cast<size_t>(most_steps);
  return plan;
}

/// Takes the measurements of one command and keeps what it needs for the tables at the end.
class ArrivalsBench {
 public:
  ArrivalsBench(const ArrivalsFlags& flags, const ArrivalsPlan& plan, ArrivalsResults results,
                std::optional<TokenFile> tokens)
      : flags_(flags), plan_(plan), results_(std::move(results)), tokens_(std::move(tokens)) {}

  /// All rates on one engine.
  Status RunEngine(const EngineOptions& options) {
    DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
    if (rates_.bytes_per_second == 0) rates_ = MeasureRates(served->ops());
    for (const NamedWorkload& named : plan_.workloads) {
      DECANT_RETURN_IF_ERROR(RunWorkload(*served, options, named));
    }
    return Status();
  }

  Status Finish() {
    std::printf("\n%s\n%s\n", ArrivalsTable(points_).c_str(), StepTable(StepsOf(points_)).c_str());
    for (const std::string& sentence : sentences_) std::printf("%s\n", sentence.c_str());
    if (tokens_) DECANT_RETURN_IF_ERROR(tokens_->Close());
    return results_.Close();
  }

 private:
  /// All rates of one workload on one engine.
  Status RunWorkload(ServedModel& served, const EngineOptions& options,
                     const NamedWorkload& named) {
    first_ = points_.size();
    named_ = named;
    setup_ = {.device = plan_.device,
              .model = served.config().name,
              .workload = named.name,
              .seed = named.options.seed,
              .one_of_seeds = plan_.workloads.size() > 1,
              .arrival_seed = flags_.arrival_seed.value_or(named.options.seed),
              .engine = plan_.preset,
              .decode_kernel = std::string(DecodeKernelName(options.decode_kernel)),
              .page_size = options.page_size,
              .pages = served.num_pages(),
              .max_batch = options.max_batch,
              .chunk_tokens = ChunkName(options)};
    most_chunk_tokens_ = options.chunk_tokens;
    DECANT_RETURN_IF_ERROR(plan_.trace.empty() ? RunRates(served) : RunTrace(served));
    std::stable_sort(points_.begin() + static_cast<std::ptrdiff_t>(first_), points_.end(),
                     [](const auto& a, const auto& b) { return a.rate < b.rate; });
    sentences_.push_back(SaturationSentence(Curve()));
    return results_.AddSaturation(Curve());
  }

  /// The points of the engine and the workload that run.
  std::span<const ArrivalsPoint> Curve() const { return std::span(points_).subspan(first_); }

  Status RunRates(ServedModel& served) {
    const Workload workload = MakeWorkload(named_.name, named_.options, flags_.requests,
                                           PromptAlphabet(served.tokenizer()));
    if (workload.longest() > LongestRequest(served)) {
      return Error(StatusCode::kResourceExhausted,
                   "the workload has a request of {} positions; the model and the pool hold {} at "
                   "most (--scale, --prompt-lengths, --pool-gib)",
                   workload.longest(), LongestRequest(served));
    }
    DECANT_RETURN_IF_ERROR(WarmUp(served, workload));
    const auto run = [&](double rate) {
      return RunPoint(served, PoissonTraffic(workload, setup_.arrival_seed, rate), {.rate = rate});
    };
    for (const double rate : plan_.rates) DECANT_RETURN_IF_ERROR(run(rate));
    if (!plan_.rates.empty()) return Status();
    while (const std::optional<double> rate = NextRate(CurveOf(Curve()), flags_.start_rate)) {
      DECANT_RETURN_IF_ERROR(run(*rate));
    }
    return Status();
  }

  Status RunTrace(ServedModel& served) {
    const std::vector<Token> alphabet = PromptAlphabet(served.tokenizer());
    const std::string file = std::filesystem::path(flags_.trace).filename().string();
    for (const double speedup : flags_.speedups) {
      DECANT_ASSIGN_OR_RETURN(const Traffic traffic,
                              TraceTraffic(plan_.trace, LongestRequest(served), speedup, alphabet));
      if (Curve().empty()) DECANT_RETURN_IF_ERROR(WarmUp(served, traffic.workload));
      DECANT_RETURN_IF_ERROR(
          RunPoint(served, traffic,
                   {.trace = fmt::format("{} x{}", file, speedup), .rate = traffic.OfferedRate()}));
    }
    return Status();
  }

  /// Positions that the model and the whole pool can hold.
  static int32_t LongestRequest(const ServedModel& served) {
    const int64_t slots = int64_t{served.num_pages()} * served.page_size();
    return static_cast<int32_t>(std::min<int64_t>(served.max_model_len(), slots));
  }

  static Status WarmUp(ServedModel& served, const Workload& workload) {
    const size_t count = std::min(workload.items.size(), kWarmUpRequests);
    const Workload first{.name = workload.name,
                         .items = {workload.items.begin(), workload.items.begin() + count}};
    Progress progress("warm-up", first.budget_tokens(), "tokens");
    return RunClosed(served.engine(), first, [&] { progress.Advance(1); }).status();
  }

  /// `point` has what sets it apart from the others.
  Status RunPoint(ServedModel& served, const Traffic& traffic, ArrivalsPoint point) {
    point.setup = setup_;
    point.offered = traffic.OfferedRate();
    point.left_out = traffic.left_out;
    Progress progress(point.Label(), std::ssize(traffic.arrivals), "requests");
    DECANT_ASSIGN_OR_RETURN(const ArrivalsRun run,
                            RunArrivals(served.engine(), traffic, [&] { progress.Advance(1); }));
    progress.Finish();
    point.summary = SummarizeArrivals(traffic, run);
    point.steps = SummarizeSteps(run.steps, rates_);
    std::printf("%s\n", point.Line().c_str());
    if (point.left_out > 0) {
      std::printf("  %d of %zu requests were left out: over %d positions\n", point.left_out,
                  plan_.trace.size(), LongestRequest(served));
    }
    std::fflush(stdout);
    DECANT_RETURN_IF_ERROR(results_.AddPoint(point, rates_));
    DECANT_RETURN_IF_ERROR(AddTokens(point, traffic, run));
    points_.push_back(std::move(point));
    return Status();
  }

  Status AddTokens(const ArrivalsPoint& point, const Traffic& traffic, const ArrivalsRun& run) {
    if (!tokens_) return Status();
    const TokenRun shared{.workload = point.setup.workload,
                          .options = named_.options,
                          .load = fmt::format("{} a second", point.rate),
                          .decode_kernel = point.setup.decode_kernel,
                          .page_size = point.setup.page_size,
                          .max_batch = point.setup.max_batch,
                          .chunk_tokens = most_chunk_tokens_};
    for (size_t i = 0; i < run.requests.size(); ++i) {
      DECANT_RETURN_IF_ERROR(tokens_->Add(shared, static_cast<int32_t>(i),
                                          traffic.workload.items[i].prompt,
                                          run.requests[i].tokens));
    }
    return Status();
  }

  const ArrivalsFlags& flags_;
  const ArrivalsPlan& plan_;
  ArrivalsResults results_;
  std::optional<TokenFile> tokens_;
  MachineRates rates_;
  NamedWorkload named_;  ///< What runs.
  ArrivalsSetup setup_;
  int32_t most_chunk_tokens_ = 0;
  size_t first_ = 0;
  std::vector<ArrivalsPoint> points_;
  std::vector<std::string> sentences_;
};

Status BenchArrivals(const ArrivalsFlags& flags, std::span<const char* const> command) {
  if (flags.tokens && flags.out.empty()) {
    return InvalidArgument("--tokens needs --out, the folder that tokens.jsonl goes to");
  }
  DECANT_ASSIGN_OR_RETURN(const ArrivalsPlan plan, ReadFlags(flags));
  const RunHeader header = MakeRunHeader(command, plan.workloads.front().options.seed);
  DECANT_ASSIGN_OR_RETURN(ArrivalsResults results, ArrivalsResults::Open(flags.out, header));
  std::optional<TokenFile> tokens;
  if (flags.tokens) {
    DECANT_ASSIGN_OR_RETURN(tokens, TokenFile::Open(flags.out, header));
  }
  ArrivalsBench bench(flags, plan, std::move(results), std::move(tokens));
  for (const EngineOptions& options : plan.engines) {
    DECANT_RETURN_IF_ERROR(bench.RunEngine(options));
  }
  return bench.Finish();
}

/// --trace and its companions; `others` say how requests and arrivals are drawn instead.
void AddTraceFlags(CLI::App& app, ArrivalsFlags& flags, const std::vector<CLI::Option*>& others) {
  auto* trace = app.add_option("--trace", flags.trace,
                               "Replay real traffic instead: a CSV file with the columns "
                               "arrival_s, prompt_tokens and output_tokens")
                    ->type_name("FILE");
  for (CLI::Option* other : others) trace->excludes(other);
  app.add_option("--speedup", flags.speedups,
                 "Replay it so many times as fast; a list is run in turn")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("X,...")
      ->needs(trace);
  app.add_option("--limit", flags.limit, "Its first N requests only")
      ->check(CLI::Range(1, 1 << 30))
      ->type_name("N")
      ->needs(trace);
}

}  // namespace

Command AddBenchArrivalsCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "arrivals", "Deliver requests one at a time while the engine works; find what it can serve");
  const auto flags = std::make_shared<ArrivalsFlags>();
  AddEngineSweep(app, flags->engine, flags->sweep);
  std::vector<CLI::Option*> drawn = AddWorkloadFlags(app, flags->workload);
  drawn.push_back(app.add_option("--rates", flags->rates,
                                 "Requests a second, run in turn: 1,2,4; or auto, to search for "
                                 "the capacity")
                      ->delimiter(',')
                      ->type_name("R,..."));
  drawn.push_back(app.add_option("--start-rate", flags->start_rate, "Where --rates auto begins")
                      ->capture_default_str()
                      ->type_name("R"));
  drawn.push_back(app.add_option("--requests", flags->requests, "Poisson arrivals a rate")
                      ->capture_default_str()
                      ->check(CLI::Range(2, 1 << 20))
                      ->type_name("N"));
  drawn.push_back(app.add_option("--arrival-seed", flags->arrival_seed,
                                 "Draws the arrivals (default: the workload's seed)")
                      ->type_name("SEED"));
  drawn.push_back(app.add_flag("--tokens", flags->tokens,
                               "Add what each request got to tokens.jsonl, for decant parity; "
                               "needs --out"));
  AddTraceFlags(app, *flags, drawn);
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to arrivals.csv (a line a rate) and arrivals.jsonl "
                 "(a header of machine, commit, flags and seed; a line a rate; a line an engine "
                 "that says where it saturates)")
      ->type_name("DIR");
  app.footer(
      "Examples:\n"
      "  decant bench arrivals --model M.gguf --rates 1,2,4,8\n"
      "  decant bench arrivals --model M.gguf --rates auto --start-rate 0.5 --out results/cpu\n"
      "  decant bench arrivals --model M.gguf --trace traffic.csv --speedup 1,2 --limit 500\n"
      "  decant bench arrivals --model M.gguf --rates 2 --requests 30 --scale 0.05\n"
      "A rate's served requests a second count to the LAST completion. All rates of a seed offer\n"
      "the same pattern of arrivals, compressed. Waits and latencies count from the moment that a\n"
      "request was due; every budget is used to its end.\n"
      "A curve has levelled where raising the rate gains less than a quarter in served rate of\n"
      "what it gained in rate, and fallen below 98% of its best. --rates auto doubles the rate\n"
      "until then, halves the lowest until 90% of it is served, then halves the gaps beside the\n"
      "best rate down to an eighth of it.");
  return {.app = &app, .run = [flags, command] { return BenchArrivals(*flags, command); }};
}

}  // namespace decant
