#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/plan_results.h"
#include "apps/simulate_command.h"
#include "apps/workload_flags.h"
#include "base/progress.h"
#include "bench/trace_file.h"
#include "sim/device_file.h"
#include "sim/parallel.h"
#include "sim/plan.h"

namespace decant {
namespace {

constexpr double kMostRate = 1e6;  // requests a second, and speed-up
constexpr double kMilli = 1e3;
constexpr double kRequestsPerMachine = 2000;
constexpr double kSecondsOfTraffic = 600;
constexpr double kMostRequests = 1 << 24;

struct PlanFlags {
  std::string device{};
  std::vector<std::string> kernels{};
  std::vector<int32_t> page_sizes = {64};
  std::vector<int64_t> pools{};
  std::vector<int32_t> max_batches = {32};
  std::vector<int32_t> chunks = {512};
  std::vector<std::string> policies = {"least-loaded"};
  double turns = 5;
  BalanceLimits balance{};
  WorkloadFlags workload{};
  std::optional<int32_t> requests{};
  std::optional<uint64_t> arrival_seed{};
  std::string trace{};
  std::optional<int32_t> limit{};
  int32_t repeat = 1;
  std::vector<int32_t> machines{};
  std::vector<double> rates{};
  std::vector<double> speedups{};
  std::optional<double> first_token{};
  std::optional<double> gap_ms{};
  double precision = 0.01;
  int32_t most_machines = 1 << 14;
  int32_t threads = 0;
  std::string out{};
};

/// A question to answer.
struct Job {
  PlanSetup setup{};
  StepTimeModel model;
  FleetConfig fleet{};
  double speedup = 0;  ///< Of the traffic; where the number of machines is asked for.
};

/// What the flags ask for, read.
struct Plan {
  StepTimeParameters device{};
  NamedWorkload workload{};
  std::vector<TraceRequest> trace{};
  PlanTarget target{};
  int32_t threads = 1;
  std::vector<Job> jobs{};
};

Status CheckList(std::string_view flag, const std::vector<double>& values) {
  for (const double value : values) {
    if (!(value > 0 && value <= kMostRate)) {
      return InvalidArgument("{} has {}; allowed: above 0, at most {}", flag, value, kMostRate);
    }
  }
  return Status();
}

Status CheckQuestion(const PlanFlags& flags) {
  if (flags.machines.empty() + flags.rates.empty() + flags.speedups.empty() != 2) {
    return InvalidArgument(
        "one question at a time: --machines N,... (the highest rate that they hold), or --rate "
        "R,... or, with --trace, --speedup X,... (the least machines that hold it)");
  }
  if (!flags.first_token && !flags.gap_ms) {
    return InvalidArgument(
        "no target: --p99-first-token SECONDS, --p99-token-gap MILLISECONDS, or both");
  }
  DECANT_RETURN_IF_ERROR(CheckList("--rate", flags.rates));
  DECANT_RETURN_IF_ERROR(CheckList("--speedup", flags.speedups));
  if (flags.first_token)
    DECANT_RETURN_IF_ERROR(CheckList("--p99-first-token", {*flags.first_token}));
  if (flags.gap_ms) DECANT_RETURN_IF_ERROR(CheckList("--p99-token-gap", {*flags.gap_ms}));
  if (!(flags.precision >= 1e-4 && flags.precision <= 1)) {
    return InvalidArgument("--precision is {}; allowed: 0.0001 to 1", flags.precision);
  }
  if (!(flags.turns >= 1 && flags.turns <= kMostRate)) {
    return InvalidArgument("--turns is {}; allowed: 1 to {}", flags.turns, kMostRate);
  }
  if (!(flags.balance.ratio >= 1)) {
    return InvalidArgument("--balance-ratio is {}; allowed: at least 1", flags.balance.ratio);
  }
  return Status();
}

/// The model's kernels that are asked for: all that the device file has, if none is named.
Expected<std::vector<SimulatedKernel>> ReadKernels(const PlanFlags& flags,
                                                   const StepTimeParameters& device) {
  std::vector<SimulatedKernel> kernels;
  for (const std::string& name : flags.kernels) {
    const Expected<SimulatedKernel> kernel = FindSimulatedKernel(name);
    if (!kernel.ok()) return kernel.status().WithContext("--decode-kernel");
    kernels.push_back(*kernel);
  }
  if (kernels.empty()) {
    for (const DecodeAttentionTime& decode : device.decode) kernels.push_back(decode.kernel);
  }
  return kernels;
}

/// Everything that is swept, apart from the questions.
Expected<std::vector<Job>> SweepEngines(const PlanFlags& flags, const Plan& plan) {
  const StepTimeParameters& device = plan.device;
  DECANT_ASSIGN_OR_RETURN(const std::vector<SimulatedKernel> kernels, ReadKernels(flags, device));
  std::vector<int64_t> pools = flags.pools;
  if (pools.empty()) pools = {device.pool_slots};
  std::vector<Job> jobs;
  const auto add = [&](SimulatedKernel kernel, int32_t page_size, int64_t pool,
                       int32_t max_batch) -> Status {
    DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                            StepTimeModel::Create(device, kernel, page_size));
    for (const int32_t chunk : flags.chunks) {
      Job job{.model = model};
      job.setup = {.device = device.device,
                   .model = device.model,
                   .workload = plan.trace.empty() ? plan.workload.name : "",
                   .seed = plan.workload.options.seed,
                   .trace = std::filesystem::path(flags.trace).filename().string(),
                   .decode_kernel = std::string(SimulatedKernelName(kernel)),
                   .page_size = page_size,
                   .pool_slots = pool,
                   .max_batch = max_batch,
                   .chunk_tokens = chunk,
                   .turns = flags.turns,
                   .target = plan.target};
      job.fleet.engine = {
          .max_batch = max_batch,
          .chunk_tokens = chunk,
          .num_pages = static_cast<int32_t>(std::min<int64_t>(pool / page_size, 1 << 30)),
          .page_size = page_size};
      job.fleet.balance = flags.balance;
      DECANT_RETURN_IF_ERROR(SimulatedEngine::Create(job.fleet.engine, model).status());
      jobs.push_back(std::move(job));
    }
    return Status();
  };
  for (const SimulatedKernel kernel : kernels) {
    for (const int32_t page_size : flags.page_sizes) {
      for (const int64_t pool : pools) {
        for (const int32_t max_batch : flags.max_batches) {
          DECANT_RETURN_IF_ERROR(add(kernel, page_size, pool, max_batch));
        }
      }
    }
  }
  return jobs;
}

/// Each of `engines` with each policy and question.
Status AddQuestions(const PlanFlags& flags, const std::vector<Job>& engines, Plan& plan) {
  const std::vector<double>& speeds = flags.trace.empty() ? flags.rates : flags.speedups;
  for (const std::string& name : flags.policies) {
    const Expected<RoutingPolicy> policy = FindRoutingPolicy(name);
    if (!policy.ok()) return policy.status().WithContext("--policy");
    for (Job job : engines) {
      job.fleet.policy = *policy;
      job.setup.policy = name;
      for (const int32_t machines : flags.machines) {
        job.setup.machines = job.fleet.machines = machines;
        plan.jobs.push_back(job);
      }
      for (const double speed : speeds) {
        job.speedup = speed;
        plan.jobs.push_back(job);
      }
    }
  }
  // With several questions, each is answered by one thread.
  plan.threads = flags.threads > 0 ? flags.threads : ProcessorCount();
  if (plan.jobs.size() == 1) plan.jobs.front().fleet.threads = plan.threads;
  return Status();
}

Expected<Plan> ReadFlags(const PlanFlags& flags) {
  DECANT_RETURN_IF_ERROR(CheckQuestion(flags));
  Plan plan;
  plan.target.first_token_p99 = flags.first_token;
  if (flags.gap_ms) plan.target.gap_p99 = *flags.gap_ms / kMilli;
  DECANT_ASSIGN_OR_RETURN(plan.device, ReadDevice(flags.device));
  if (flags.trace.empty()) {
    DECANT_ASSIGN_OR_RETURN(plan.workload, ReadWorkload(flags.workload));
  } else {
    DECANT_ASSIGN_OR_RETURN(plan.trace, ReadTrace(flags.trace));
    plan.trace.resize(
        std::min(plan.trace.size(), static_cast<size_t>(flags.limit.value_or(1 << 30))));
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<Job> engines, SweepEngines(flags, plan));
  DECANT_RETURN_IF_ERROR(AddQuestions(flags, engines, plan));
  return plan;
}

Expected<PlanTraffic> MakeTraffic(const PlanFlags& flags, const Plan& plan, const Job& job) {
  const int64_t slots = int64_t{job.fleet.engine.num_pages} * job.fleet.engine.page_size;
  PlanTraffic traffic;
  if (!plan.trace.empty()) {
    traffic = RepeatTrace(plan.trace, flags.repeat, slots);
  } else {
    const double usual = job.setup.machines ? kRequestsPerMachine * *job.setup.machines
                                            : kSecondsOfTraffic * job.speedup;
    const double count = std::clamp(usual, kRequestsPerMachine, kMostRequests);
    traffic =
        DrawTraffic(plan.workload.options, flags.requests.value_or(static_cast<int32_t>(count)),
                    flags.arrival_seed.value_or(plan.workload.options.seed), slots);
  }
  if (traffic.requests.empty()) {
    return InvalidArgument("no request fits a pool of {} slots (--pool-slots)", slots);
  }
  traffic.conversations =
      DrawConversations(traffic.requests.size(), flags.turns, plan.workload.options.seed);
  return traffic;
}

/// Answers the questions on all threads, and keeps the answers in the questions' order.
class Planner {
 public:
  Planner(const PlanFlags& flags, const Plan& plan, PlanResults results)
      : flags_(flags),
        plan_(plan),
        results_(std::move(results)),
        progress_("plan", std::ssize(plan.jobs), "settings"),
        answers_(plan.jobs.size()) {}

  Status Run() {
    ForEachInParallel(static_cast<int32_t>(plan_.jobs.size()), plan_.threads, [&](int32_t index) {
      if (Failed()) return;
      Expected<PlanRow> row = Answer(plan_.jobs[static_cast<size_t>(index)]);
      Keep(static_cast<size_t>(index), std::move(row));
    });
    progress_.Finish();
    DECANT_RETURN_IF_ERROR(status_);
    std::printf("%s", PlanTable(rows_).c_str());
    for (const PlanRow& row : rows_) {
      const std::string remark = PlanRemark(row);
      if (!remark.empty()) std::printf("%s\n", remark.c_str());
    }
    return results_.Close();
  }

 private:
  bool Failed() {
    const std::lock_guard lock(mutex_);
    return !status_.ok();
  }

  Expected<PlanRow> Answer(const Job& job) {
    DECANT_ASSIGN_OR_RETURN(const PlanTraffic traffic, MakeTraffic(flags_, plan_, job));
    const PlanOptions options{.target = plan_.target,
                              .precision = flags_.precision,
                              .most_machines = flags_.most_machines,
                              .progress = [this](const PlanProgress& progress) {
                                progress_.SetNote(fmt::format(
                                    "{} machines at {:.4g}/s, run {}, {:.0f}%", progress.machines,
                                    progress.rate, progress.run, progress.share * 100));
                                progress_.Advance(0);
                              }};
    PlanRow row{.setup = job.setup,
                .requests = std::ssize(traffic.requests) + traffic.left_out,
                .left_out = traffic.left_out};
    DECANT_ASSIGN_OR_RETURN(
        row.answer, job.setup.machines
                        ? PlanHighestRate(job.fleet, job.model, traffic, options)
                        : PlanLeastMachines(job.fleet, job.model, traffic, job.speedup, options));
    return row;
  }

  void Keep(size_t index, Expected<PlanRow> row) {
    const std::lock_guard lock(mutex_);
    progress_.Advance(1);
    if (!row.ok()) {
      if (status_.ok()) status_ = row.status();
      return;
    }
    answers_[index] = std::move(row).value();
    while (rows_.size() < answers_.size() && answers_[rows_.size()]) {
      const PlanRow& next = *answers_[rows_.size()];
      if (status_.ok()) status_ = results_.Add(next);
      rows_.push_back(next);
    }
  }

  const PlanFlags& flags_;
  const Plan& plan_;
  PlanResults results_;
  Progress progress_;
  std::mutex mutex_;                             ///< Of what follows, and of results_.
  Status status_;                                ///< The first error.
  std::vector<std::optional<PlanRow>> answers_;  ///< By job.
  std::vector<PlanRow> rows_;                    ///< Those before the first that is open.
};

Status SimulatePlan(const PlanFlags& flags, std::span<const char* const> command) {
  DECANT_ASSIGN_OR_RETURN(const Plan plan, ReadFlags(flags));
  // Before any file is opened.
  const auto smallest =
      std::ranges::min_element(plan.jobs, {}, [](const Job& job) { return job.setup.pool_slots; });
  DECANT_RETURN_IF_ERROR(MakeTraffic(flags, plan, *smallest).status());
  const RunHeader header = MakeRunHeader(command, plan.workload.options.seed);
  DECANT_ASSIGN_OR_RETURN(PlanResults results, PlanResults::Open(flags.out, header));
  return Planner(flags, plan, std::move(results)).Run();
}

void AddEngineFlags(CLI::App& app, PlanFlags& flags) {
  app.add_option("--device-file", flags.device,
                 "Step times of a machine: data/devices/*.json, or of decant simulate fit")
      ->required()
      ->type_name("FILE");
  app.add_option("--decode-kernel", flags.kernels,
                 "rows, flash or split (default: all that the device file has)")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--page-size", flags.page_sizes, "Slots a page of the KV cache")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxPageSize))
      ->type_name("SLOTS,...");
  app.add_option("--pool-slots", flags.pools, "Slots of a machine's KV cache (default: the file's)")
      ->delimiter(',')
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31))
      ->type_name("N,...");
  app.add_option("--max-batch,--max-num-seqs", flags.max_batches,
                 "Rows: requests that run on a machine at the same time")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("ROWS,...");
  app.add_option("--chunk-tokens,--max-num-batched-tokens", flags.chunks,
                 "Prompt tokens a step, all rows together")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N,...");
}

void AddRouterFlags(CLI::App& app, PlanFlags& flags) {
  app.add_option("--policy", flags.policies,
                 "Of the router: round-robin, least-loaded (fewest requests that have not ended) "
                 "or cache-aware (a conversation stays on its machine while the fleet is in "
                 "balance)")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("NAME,...");
  app.add_option("--turns", flags.turns,
                 "Requests of a conversation, on average; traces do not tell, so they are drawn")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--balance-requests", flags.balance.requests,
                 "Out of balance: the most loaded machine has more than so many requests above "
                 "the least loaded one ...")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 30))
      ->type_name("N");
  app.add_option("--balance-ratio", flags.balance.ratio, "... and more than so many times as many")
      ->capture_default_str()
      ->type_name("X");
}

/// Either drawn requests or a trace.
void AddTrafficFlags(CLI::App& app, PlanFlags& flags) {
  std::vector<CLI::Option*> drawn = AddWorkloadFlags(app, flags.workload);
  drawn.push_back(app.add_option("--requests", flags.requests,
                                 "Poisson arrivals in all (default: 2000 a machine of --machines, "
                                 "600 seconds of --rate)")
                      ->check(CLI::Range(2, 1 << 24))
                      ->type_name("N"));
  drawn.push_back(app.add_option("--arrival-seed", flags.arrival_seed,
                                 "Draws the arrivals (default: the workload's seed)")
                      ->type_name("SEED"));
  drawn.push_back(app.add_option("--rate", flags.rates,
                                 "Requests a second: the least machines that hold the target are "
                                 "found")
                      ->delimiter(',')
                      ->type_name("R,..."));
  auto* trace = app.add_option("--trace", flags.trace,
                               "Real traffic instead: a CSV file with the columns arrival_s, "
                               "prompt_tokens and output_tokens")
                    ->type_name("FILE");
  for (CLI::Option* option : drawn) trace->excludes(option);
  app.add_option("--speedup", flags.speedups,
                 "So many times as fast: the least machines that hold the target are found")
      ->delimiter(',')
      ->type_name("X,...")
      ->needs(trace);
  app.add_option("--repeat", flags.repeat, "The trace so many times, one after the other")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N")
      ->needs(trace);
  app.add_option("--limit", flags.limit, "Its first N requests only")
      ->check(CLI::Range(2, 1 << 30))
      ->type_name("N")
      ->needs(trace);
  app.add_option("--machines", flags.machines,
                 "Machines behind the router: the highest rate that holds the target is found")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N,...");
}

}  // namespace

Command AddSimulatePlanCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "plan", "What a fleet can serve, or how many machines a service needs");
  const auto flags = std::make_shared<PlanFlags>();
  AddEngineFlags(app, *flags);
  AddTrafficFlags(app, *flags);
  AddRouterFlags(app, *flags);
  app.add_option("--p99-first-token", flags->first_token,
                 "Target: 99% of the requests get their first token within so many seconds")
      ->type_name("SECONDS");
  app.add_option("--p99-token-gap", flags->gap_ms,
                 "Target: 99% of the tokens follow the one before within so many milliseconds")
      ->type_name("MS");
  app.add_option("--precision", flags->precision, "How near an answer is, as a share")
      ->capture_default_str()
      ->type_name("SHARE");
  app.add_option("--most-machines", flags->most_machines, "Where a search for machines gives up")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  app.add_option("--threads", flags->threads, "That simulate; 0: one for each processor")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 10))
      ->type_name("N");
  app.add_option("--out", flags->out,
                 "Folder for the raw rows: adds to plan.csv and plan.jsonl, a row an answer")
      ->type_name("DIR");
  app.footer(
      "Examples:\n"
      "  decant simulate plan --device-file data/devices/h200.json --machines 1,8 \\\n"
      "    --p99-first-token 1 --p99-token-gap 50\n"
      "  decant simulate plan --device-file data/devices/h200.json --trace traffic.csv \\\n"
      "    --speedup 10,100 --repeat 10 --p99-first-token 1 --p99-token-gap 50\n"
      "  decant simulate plan --device-file data/devices/h200.json --machines 1 \\\n"
      "    --max-batch 8,16,32,64 --chunk-tokens 128,256,512,1024 --p99-token-gap 20 \\\n"
      "    --out results/plan && scripts/plot_plan.py --in results/plan --out plan.png\n"
      "Lists are combined, each with each; a row an answer. Every run ends with its last request,\n"
      "whose quantiles are over all of them; a search doubles or halves until the target's edge\n"
      "lies between two runs, then closes in. Traffic must last long enough for a queue to grow:\n"
      "--repeat or --requests. docs/planning.md has a worked example.");
  return {.app = &app, .run = [flags, command] { return SimulatePlan(*flags, command); }};
}

}  // namespace decant
