#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "bench/arrivals.h"
#include "cache/page_pool.h"
#include "sched/chunk_policy.h"
#include "sched/scheduler.h"
#include "sim/step_time_model.h"

namespace decant {

/// A request as far as time goes: its tokens' values do not matter, its budget is used to the end.
struct SimulatedRequest {
  double arrival = 0;  ///< Seconds.
  int32_t prompt_tokens = 0;
  int32_t budget = 0;  ///< Tokens to generate.
};

/// When things happened to a request, in seconds of virtual time; negative: not yet.
struct SimulatedTimes {
  double arrival = 0;
  double admitted = -1;  ///< Its first step was planned.
  double first_token = -1;
  double last_token = -1;
  int32_t tokens = 0;  ///< Generated so far.
};

/// Token gaps that took the same time: between two steps' ends, for the rows that got a token from
/// both. (A row that samples and goes on is part of every following step.)
struct TokenGap {
  double seconds = 0;
  int32_t tokens = 0;
};

/// What a simulated step was.
struct SimulatedStep {
  StepWork work{};
  StepTime time{};
  double end = 0;       ///< When its tokens were known.
  double duration = 0;  ///< As the engine measures it: since the end of the step before, or launch.
  int32_t pages_in_use = 0;
};

struct SimulatedEngineConfig {
  int32_t max_batch = 32;
  int32_t chunk_tokens = 512;
  /// Chooses each step's chunk, up to chunk_tokens; absent: always that many.
  std::optional<ChunkPolicyConfig> chunk_policy{};
  int32_t num_pages = 0;
  int32_t page_size = 64;
  bool keep_steps = false;  ///< Whether steps() is filled.
};

/// The engine's loop around the real scheduler and pool in virtual time: Receive, Next, the step's
/// time, Commit, with one step in flight where the model says so. One thread; two of them share
/// nothing.
class SimulatedEngine {
 public:
  /// Errors: invalid argument, for a shape that the pool or the scheduler refuses, or a page size
  /// that is not the model's.
  static Expected<std::unique_ptr<SimulatedEngine>> Create(const SimulatedEngineConfig& config,
                                                           const StepTimeModel& model);

  /// Runs the turns of the loop that begin before `time`. Afterwards `now` is at least `time`,
  /// unless there is nothing to do.
  void RunUntil(double time);

  /// Runs until all requests have ended.
  void RunToEnd();

  /// Hands over a request whose arrival is not before an earlier one's, nor after the `time` of the
  /// last RunUntil if the engine has work. Its number counts from 0 in order of submission. Errors:
  /// what Scheduler::Validate refuses.
  Expected<int32_t> Submit(const SimulatedRequest& request);

  double now() const { return now_; }  ///< Where the loop stands, in seconds.
  bool idle() const { return scheduler_.idle(); }
  int32_t waiting() const { return scheduler_.waiting(); }
  int32_t running() const { return scheduler_.running(); }
  /// Prompt and budget tokens of requests that have not ended, less the tokens generated.
  int64_t tokens_left() const { return tokens_left_; }
  int32_t free_pages() const { return pool_.free_pages(); }

  std::span<const SimulatedTimes> requests() const { return times_; }  ///< By number.
  std::span<const TokenGap> gaps() const { return gaps_; }             ///< In order of time.
  std::span<const SimulatedStep> steps() const { return steps_; }
  int64_t step_count() const { return step_count_; }

 private:
  struct Flight {
    const StepPlan* plan = nullptr;
    double launched = 0;
    double device_end = 0;
    StepLoad load{};
    SimulatedStep step{};
  };

  SimulatedEngine(const SimulatedEngineConfig& config, const StepTimeModel& model);
  void Turn();
  bool LaunchNext();
  void CompleteOldest();

  const SimulatedEngineConfig config_;
  const StepTimeModel model_;
  PagePool pool_;
  Scheduler scheduler_;
  std::optional<ChunkPolicy> chunk_policy_;
  double now_ = 0;
  double device_free_ = 0;    ///< When the device ends what it was given.
  double last_step_end_ = 0;  ///< When the last step's tokens were known.
  std::deque<Flight> flights_;
  StepResult result_;  ///< Reused, so that no step allocates.
  std::vector<SimulatedTimes> times_;
  std::vector<int32_t> lengths_;  ///< Prompt tokens by request.
  std::vector<TokenGap> gaps_;
  std::vector<SimulatedStep> steps_;
  int64_t step_count_ = 0;
  int64_t tokens_left_ = 0;
};

/// `traffic` on an engine of its own, from the first arrival to the last completion. Errors: those
/// of Create and Submit; cancelled, after an interrupt.
Expected<std::unique_ptr<SimulatedEngine>> Simulate(const SimulatedEngineConfig& config,
                                                    const StepTimeModel& model,
                                                    std::span<const SimulatedRequest> requests);

/// The lengths and arrivals of `traffic`; no arrivals: all at time zero.
std::vector<SimulatedRequest> RequestsOf(const Workload& workload,
                                         std::span<const double> arrivals);

/// A simulated run in figures, as bench arrivals defines them; seconds.
struct SimulationSummary {
  int64_t completed = 0;
  double wall = 0;         ///< From the first arrival to the LAST completion.
  double served_rate = 0;  ///< Completed requests a second of `wall`.
  double generated_rate = 0;
  double queue_median = 0;
  double queue_p99 = 0;
  double first_token_median = 0;
  double first_token_p99 = 0;
  double gap_median = 0;  ///< 0 if no request had two tokens.
  double gap_p99 = 0;
  double gap_max = 0;
  double latency_median = 0;
  double latency_p99 = 0;
};

/// Over all requests and gaps of `engines` (replicas of one service), which have a request that
/// ended, and none that did not.
SimulationSummary Summarize(std::span<const SimulatedEngine* const> engines);

/// The gap below which the share `q` in [0, 1] of all token gaps lies; 0 if there are none.
double GapQuantile(std::span<const TokenGap> gaps, double q);

}  // namespace decant
