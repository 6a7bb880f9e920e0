#include "sim/simulation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/narrow.h"
#include "bench/quantile.h"

namespace decant {

Expected<std::unique_ptr<SimulatedEngine>> SimulatedEngine::Create(
    const SimulatedEngineConfig& config, const StepTimeModel& model) {
  DECANT_RETURN_IF_ERROR(ValidatePoolShape(config.num_pages, config.page_size));
  DECANT_RETURN_IF_ERROR(
      ValidateSchedulerConfig({.max_batch = config.max_batch,
                               .chunk_tokens = config.chunk_tokens,
                               .limits = {.max_model_len = std::numeric_limits<int32_t>::max()}}));
  if (config.chunk_policy) {
    DECANT_RETURN_IF_ERROR(ValidateChunkPolicy(*config.chunk_policy));
    if (config.chunk_policy->most > config.chunk_tokens) {
      return InvalidArgument("the largest chunk is {}; allowed: at most {}",
                             config.chunk_policy->most, config.chunk_tokens);
    }
  }
  if (config.page_size != model.page_size()) {
    return InvalidArgument("pages of {} slots with a model of pages of {}", config.page_size,
                           model.page_size());
  }
  return std::unique_ptr<SimulatedEngine>(new SimulatedEngine(config, model));
}

SimulatedEngine::SimulatedEngine(const SimulatedEngineConfig& config, const StepTimeModel& model)
    : config_(config),
      model_(model),
      pool_(config.num_pages, config.page_size),
      scheduler_({.max_batch = config.max_batch,
                  .chunk_tokens = config.chunk_tokens,
                  .limits = {.max_model_len = std::numeric_limits<int32_t>::max()}},
                 pool_) {
  if (config.chunk_policy) chunk_policy_.emplace(*config.chunk_policy);
}

Expected<int32_t> SimulatedEngine::Submit(const SimulatedRequest& request) {
  const auto number = Narrow<int32_t>(times_.size());
  Request submitted{.id = static_cast<RequestId>(number), .max_new_tokens = request.budget};
  submitted.prompt.resize(static_cast<size_t>(std::max(request.prompt_tokens, 0)));
  if (idle()) now_ = std::max(now_, request.arrival);
  DECANT_RETURN_IF_ERROR(scheduler_.Submit(std::move(submitted)));
  times_.push_back({.arrival = request.arrival});
  tokens_left_ += int64_t{request.prompt_tokens} + request.budget;
  lengths_.push_back(request.prompt_tokens);
  return number;
}

void SimulatedEngine::RunUntil(double time) {
  while (now_ < time && !idle()) Turn();
}

void SimulatedEngine::RunToEnd() {
  while (!idle()) Turn();
}

/// One turn of the engine's loop, after it has received what came.
void SimulatedEngine::Turn() {
  const bool one_in_flight = !flights_.empty();
  const bool launched = LaunchNext();
  if (one_in_flight || (launched && !model_.parameters().one_step_in_flight)) CompleteOldest();
}

bool SimulatedEngine::LaunchNext() {
  const StepPlan& plan = chunk_policy_
                             ? scheduler_.Next(chunk_policy_->Choose(scheduler_.Outlook()))
                             : scheduler_.Next();
  if (plan.empty()) return false;
  for (const PlannedRow& row : plan.rows) {
    SimulatedTimes& times = times_[row.request];
    if (times.admitted < 0) times.admitted = now_;
  }
  Flight flight{.plan = &plan, .launched = now_};
  if (chunk_policy_) flight.load = LoadOf(plan);
  flight.step.work = WorkOf(plan, config_.page_size);
  flight.step.time = model_.Of(flight.step.work);
  flight.step.pages_in_use = pool_.num_pages() - pool_.free_pages();
  const StepTime& time = flight.step.time;
  if (model_.parameters().one_step_in_flight) {
    // The device starts on what is launched first while the host still launches the rest.
    const double start = std::max(device_free_, now_);
    now_ += time.host;
    flight.device_end = std::max(start + time.device(), now_);
  } else {
    now_ += time.host;
    flight.device_end = std::max(device_free_, now_) + time.device();
  }
  device_free_ = flight.device_end;
  flights_.push_back(flight);
  return true;
}

void SimulatedEngine::CompleteOldest() {
  Flight flight = flights_.front();
  flights_.pop_front();
  const StepPlan& plan = *flight.plan;
  now_ = std::max(now_, flight.device_end);
  result_.step = plan.step;
  result_.tokens.resize(plan.rows.size());
  size_t sampled = 0;
  for (const PlannedRow& row : plan.rows) {
    if (!row.samples) continue;
    result_.tokens[sampled].request = row.request;
    result_.tokens[sampled].row = row.row;
    ++sampled;
  }
  result_.tokens.resize(sampled);
  TokenGap gap{.seconds = now_ - last_step_end_};
  tokens_left_ -= plan.prompt_tokens;
  for (const TokenEvent& event : scheduler_.Commit(result_)) {
    SimulatedTimes& times = times_[event.request];
    if (times.tokens++ == 0) {
      times.first_token = now_;
    } else {
      ++gap.tokens;
    }
    if (event.finish) times.last_token = now_;
    --tokens_left_;
  }
  if (gap.tokens > 0) gaps_.push_back(gap);
  ++step_count_;
  const double duration = now_ - std::max(flight.launched, last_step_end_);
  if (chunk_policy_) chunk_policy_->Observe(flight.load, duration);
  if (config_.keep_steps) {
    flight.step.end = now_;
    flight.step.duration = duration;
    steps_.push_back(flight.step);
  }
  last_step_end_ = now_;
}

Expected<std::unique_ptr<SimulatedEngine>> Simulate(const SimulatedEngineConfig& config,
                                                    const StepTimeModel& model,
                                                    std::span<const SimulatedRequest> requests) {
  DECANT_ASSIGN_OR_RETURN(auto engine, SimulatedEngine::Create(config, model));
  for (const SimulatedRequest& request : requests) {
    if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
    engine->RunUntil(request.arrival);
    DECANT_RETURN_IF_ERROR(engine->Submit(request).status());
  }
  engine->RunToEnd();
  return engine;
}

std::vector<SimulatedRequest> RequestsOf(const Workload& workload,
                                         std::span<const double> arrivals) {
  DECANT_CHECK(arrivals.empty() || arrivals.size() == workload.items.size());
  std::vector<SimulatedRequest> requests;
  requests.reserve(workload.items.size());
  for (size_t i = 0; i < workload.items.size(); ++i) {
    const WorkItem& item = workload.items[i];
    requests.push_back({.arrival = arrivals.empty() ? 0 : arrivals[i],
                        .prompt_tokens = Narrow<int32_t>(item.prompt.size()),
                        .budget = item.budget});
  }
  return requests;
}

double GapQuantile(std::span<const TokenGap> gaps, double q) {
  if (gaps.empty()) return 0;
  std::vector<TokenGap> sorted(gaps.begin(), gaps.end());
  std::ranges::sort(sorted, {}, &TokenGap::seconds);
  int64_t total = 0;
  for (const TokenGap& gap : sorted) total += gap.tokens;
  auto left = static_cast<int64_t>(q * static_cast<double>(total - 1));
  for (const TokenGap& gap : sorted) {
    left -= gap.tokens;
    if (left < 0) return gap.seconds;
  }
  return sorted.back().seconds;
}

SimulationSummary Summarize(std::span<const SimulatedEngine* const> engines) {
  std::vector<double> queue;
  std::vector<double> first_token;
  std::vector<double> latency;
  std::vector<TokenGap> gaps;
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
  int64_t generated = 0;
  for (const SimulatedEngine* engine : engines) {
    for (const SimulatedTimes& times : engine->requests()) {
      DECANT_CHECK(times.last_token >= 0, "a request has not ended");
      queue.push_back(times.admitted - times.arrival);
      first_token.push_back(times.first_token - times.arrival);
      latency.push_back(times.last_token - times.arrival);
      begin = std::min(begin, times.arrival);
      end = std::max(end, times.last_token);
      generated += times.tokens;
    }
    gaps.insert(gaps.end(), engine->gaps().begin(), engine->gaps().end());
  }
  DECANT_CHECK(!queue.empty());
  SimulationSummary summary{.completed = std::ssize(queue), .wall = end - begin};
  summary.served_rate = static_cast<double>(summary.completed) / summary.wall;
  summary.generated_rate = static_cast<double>(generated) / summary.wall;
  summary.queue_median = Median(queue);
  summary.queue_p99 = Quantile(queue, 0.99);
  summary.first_token_median = Median(first_token);
  summary.first_token_p99 = Quantile(first_token, 0.99);
  summary.latency_median = Median(latency);
  summary.latency_p99 = Quantile(latency, 0.99);
  summary.gap_median = GapQuantile(gaps, 0.5);
  summary.gap_p99 = GapQuantile(gaps, 0.99);
  summary.gap_max = GapQuantile(gaps, 1);
  return summary;
}

}  // namespace decant
