#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/narrow.h"

namespace decant {
namespace {

constexpr size_t kMostFlights = 2;

double Seconds(int64_t from, int64_t to) { return NanosToSeconds(to - from); }

Status ValidateConfig(const EngineConfig& config) {
  DECANT_RETURN_IF_ERROR(ValidatePoolShape(config.num_pages, config.page_size));
  DECANT_RETURN_IF_ERROR(ValidateSchedulerConfig(config.scheduler));
  if (!config.chunk_policy) return {};
  if (config.chunk_policy->most > config.scheduler.chunk_tokens) {
    return InvalidArgument("the largest chunk is {}; allowed: at most {} (chunk_tokens)",
                           config.chunk_policy->most, config.scheduler.chunk_tokens);
  }
  return ValidateChunkPolicy(*config.chunk_policy);
}

}  // namespace

Expected<std::unique_ptr<Engine>> Engine::Create(EngineConfig config,
                                                 std::unique_ptr<StepRunner> runner,
                                                 std::shared_ptr<const Tokenizer> tokenizer) {
  DECANT_RETURN_IF_ERROR(ValidateConfig(config));
  DECANT_CHECK(runner != nullptr);
  std::unique_ptr<Engine> engine(
      new Engine(std::move(config), std::move(runner), std::move(tokenizer)));
  engine->thread_ = std::thread(&Engine::Loop, engine.get());
  engine->loop_id_ = engine->thread_.get_id();
  return engine;
}

Engine::Engine(EngineConfig config, std::unique_ptr<StepRunner> runner,
               std::shared_ptr<const Tokenizer> tokenizer)
    : config_(std::move(config)),
      tokenizer_(std::move(tokenizer)),
      runner_(std::move(runner)),
      pool_(config_.num_pages, config_.page_size),
      scheduler_(config_.scheduler, pool_),
      history_(config_.step_history) {
  pool_.set_free_observer(config_.free_observer);
  stats_.num_pages = config_.num_pages;
  flights_.reserve(kMostFlights);
  stats_.chunk_tokens = config_.scheduler.chunk_tokens;
  if (config_.chunk_policy) {
    chunk_policy_.emplace(*config_.chunk_policy);
    stats_.chunk_tokens = 0;
  }
}

Engine::~Engine() { Stop(); }

Expected<RequestId> Engine::Submit(GenerateRequest request) {
  DECANT_ASSIGN_OR_RETURN(Arrival arrival, MakeArrival(std::move(request)));
  const std::lock_guard lock(mutex_);
  DECANT_RETURN_IF_ERROR(refusal_);
  const RequestId id = next_id_++;
  arrival.request.id = id;
  alive_ += arrival.stream.alive;
  stats_.accepted += static_cast<uint64_t>(arrival.stream.alive);
  arrivals_.push_back(std::move(arrival));
  wake_.notify_one();
  return id;
}

/// The request without its id, checked, and its stream.
Expected<Engine::Arrival> Engine::MakeArrival(GenerateRequest request) const {
  if (!request.sink) return InvalidArgument("the request has no sink");
  if (!tokenizer_ && !request.stop_strings.empty()) {
    return InvalidArgument("stop strings need a tokenizer; this engine has none");
  }
  DECANT_ASSIGN_OR_RETURN(StopMatcher stops, StopMatcher::Create(std::move(request.stop_strings)));
  Arrival arrival;
  arrival.request.prompt = std::move(request.prompt);
  arrival.request.max_new_tokens = request.max_new_tokens;
  arrival.request.samples = request.samples;
  arrival.request.sampling = request.sampling;
  if (!request.ignore_end_of_text) arrival.request.stop_tokens = config_.end_of_text;
  DECANT_RETURN_IF_ERROR(scheduler_.Validate(arrival.request));
  arrival.stream.sink = std::move(request.sink);
  SampleStream sample;
  if (tokenizer_) sample.text.emplace(*tokenizer_, std::move(stops));
  arrival.stream.samples.resize(request.samples, sample);
  arrival.stream.alive = request.samples;
  arrival.stream.prompt_tokens = Narrow<int32_t>(arrival.request.prompt.size());
  return arrival;
}

void Engine::Cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  if (alive_ == 0) return;
  cancels_.push_back(id);
  wake_.notify_one();
}

void Engine::Drain() {
  DECANT_CHECK(std::this_thread::get_id() != loop_id_, "Drain on the loop thread");
  std::unique_lock lock(mutex_);
  if (refusal_.ok()) refusal_ = Error(StatusCode::kFailedPrecondition, "the engine is draining");
  drained_.wait(lock, [this] { return alive_ == 0 && resting_; });
}

void Engine::Stop() {
  DECANT_CHECK(std::this_thread::get_id() != loop_id_, "Stop on the loop thread");
  {
    const std::lock_guard lock(mutex_);
    if (refusal_.ok()) refusal_ = Error(StatusCode::kFailedPrecondition, "the engine has stopped");
    stop_ = true;
    wake_.notify_one();
  }
  const std::lock_guard lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

Status Engine::Health() const {
  const std::lock_guard lock(mutex_);
  return refusal_;
}

EngineStats Engine::Stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.waiting = std::max(alive_ - stats.running, 0);
  return stats;
}

std::vector<StepRecord> Engine::Steps() const {
  const std::lock_guard lock(mutex_);
  return history_.Records();
}

std::vector<StepRecord> Engine::StepsSince(uint64_t step, size_t most) const {
  const std::lock_guard lock(mutex_);
  return history_.Since(step, most);
}

std::vector<RowProgress> Engine::Rows() const {
  const std::lock_guard lock(mutex_);
  return rows_;
}

void Engine::Loop() {
  while (Receive()) {
    const bool one_in_flight = !flights_.empty();
    Status status = LaunchNext();
    if (status.ok() && one_in_flight) status = CompleteOldest();
    if (!status.ok()) {
      Fail(status);
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  Publish();
}

/// Empties the inbox into the scheduler; blocks while there is nothing at all to do. False once
/// the engine stops and the last step is done.
bool Engine::Receive() {
  bool stop;
  {
    std::unique_lock lock(mutex_);
    Publish();
    scheduler_.Progress(rows_);
    wake_.wait(lock, [this] {
      return !scheduler_.idle() || !arrivals_.empty() || !cancels_.empty() || stop_;
    });
    resting_ = false;
    received_arrivals_.swap(arrivals_);
    received_cancels_.swap(cancels_);
    stop = stop_;
  }
  for (Arrival& arrival : received_arrivals_) {
    streams_.emplace(arrival.request.id, std::move(arrival.stream));
    const Status status = scheduler_.Submit(std::move(arrival.request));
    DECANT_CHECK(status.ok(), "refused after it was validated: {}", status.ToString());
  }
  received_arrivals_.clear();
  for (const RequestId id : received_cancels_) {
    if (scheduler_.End(id)) SendEnd(id, FinishReason::kCancelled, {});
  }
  received_cancels_.clear();
  if (stop) {
    for (const auto& [id, stream] : streams_) scheduler_.End(id);
    EndAll(FinishReason::kCancelled, {});
  }
  return !stop || !scheduler_.idle();
}

/// Plans the next step and starts it, if there is anything to compute.
Status Engine::LaunchNext() {
  const int64_t start = SteadyNanos();
  const StepPlan& plan = PlanNext();
  if (plan.empty()) return {};
  const int64_t planned = SteadyNanos();
  NoteAdmissions(plan, planned);
  DECANT_ASSIGN_OR_RETURN(const Ticket ticket, runner_->Launch(plan));
  Flight flight{.ticket = ticket,
                .launched_at = planned,
                .load = LoadOf(plan),
                .record = {.step = plan.step,
                           .prompt_tokens = plan.prompt_tokens,
                           .decode_tokens = plan.decode_tokens,
                           .rows = Narrow<int32_t>(plan.rows.size()),
                           .pages_in_use = PagesInUse(),
                           .plan = Seconds(start, planned),
                           .launch = Seconds(planned, SteadyNanos()),
                           .begin = start,
                           .follows = !flights_.empty()}};
  for (const PlannedRow& row : plan.rows) flight.record.cached_tokens += row.context_len;
  flights_.push_back(flight);
  return {};
}

/// The next step, in a chunk of its own where there is a policy.
const StepPlan& Engine::PlanNext() {
  if (!chunk_policy_) return scheduler_.Next();
  return scheduler_.Next(chunk_policy_->Choose(scheduler_.Outlook()));
}

/// Tells the policy what a step took, and the log, once, where the policy cannot do its duty.
void Engine::TellChunkPolicy(const StepLoad& load, double seconds) {
  if (!chunk_policy_) return;
  chunk_policy_->Observe(load, seconds);
  if (told_out_of_reach_ || !chunk_policy_->out_of_reach()) return;
  told_out_of_reach_ = true;
  LogWarning(
      "loaded steps cannot be kept under {:g} ms here: with {} prompt tokens one takes {:.3g} ms; "
      "prompts go on in such chunks",
      *config_.chunk_policy->max_step_seconds * 1e3, ChunkPolicy::kGrain, seconds * 1e3);
}

/// Writes down when requests left the queue: a row with a prompt chunk may be its request's first.
void Engine::NoteAdmissions(const StepPlan& plan, int64_t time) {
  for (const PlannedRow& row : plan.rows) {
    if (row.prompt_tokens.empty()) continue;
    Stream& stream = FindStream(row.request);
    if (!stream.admitted_time) stream.admitted_time = time;
  }
}

/// Waits for the oldest step in flight and delivers its tokens.
Status Engine::CompleteOldest() {
  const Flight flight = flights_.front();
  flights_.erase(flights_.begin());
  const int64_t start = SteadyNanos();
  DECANT_RETURN_IF_ERROR(runner_->Wait(flight.ticket, result_));
  const int64_t end = SteadyNanos();
  for (const RequestFailure& failure : result_.failures) EndFailed(failure);
  const std::span<const TokenEvent> events = scheduler_.Commit(result_);
  for (const TokenEvent& event : events) Deliver(event, end);

  StepRecord record = flight.record;
  record.wait = Seconds(start, end);
  record.end = end;
  record.duration = Seconds(std::max(flight.launched_at, last_step_end_), end);
  record.device = result_.seconds;
  if (record.follows) record.idle = result_.gap;
  record.bytes = result_.bytes;
  record.operations = result_.operations;
  record.deliver = Seconds(end, SteadyNanos());
  last_step_end_ = end;
  TellChunkPolicy(flight.load, record.duration);
  const std::lock_guard lock(mutex_);
  if (chunk_policy_) stats_.chunk_tokens = chunk_policy_->last_binding();
  history_.Add(record);
  ++(record.pure_decode() ? stats_.pure_decode_steps : stats_.loaded_steps);
  stats_.prompt_tokens += static_cast<uint64_t>(record.prompt_tokens);
  stats_.generated_tokens += events.size();
  return {};
}

/// Ends a request that the step could not compute, unless it has ended before.
void Engine::EndFailed(const RequestFailure& failure) {
  if (!scheduler_.End(failure.request)) return;
  LogWarning("request {} has failed: {}", failure.request, failure.status.message());
  SendEnd(failure.request, FinishReason::kFailed, failure.status);
}

/// Turns a token into text and sends it, and ends the sample where the token or its text says so.
void Engine::Deliver(const TokenEvent& event, int64_t time) {
  SampleStream& stream = FindStream(event.request).samples[event.sample];
  ++stream.generated_tokens;
  std::optional<FinishReason> finish = event.finish;
  TextStream::Piece piece;
  if (stream.text) {
    piece = !finish                              ? stream.text->Push(event.token)
            : finish == FinishReason::kEndOfText ? stream.text->Finish()
                                                 : stream.text->PushLast(event.token);
    if (piece.stopped) {
      scheduler_.End(event.request, event.sample);
      finish = FinishReason::kStopString;
    }
  }
  Send({.request = event.request,
        .sample = event.sample,
        .token = event.token,
        .text = piece.text,
        .logprobs = event.sampled->logprobs ? &*event.sampled->logprobs : nullptr,
        .prompt_logprobs = event.sampled->prompt_logprobs,
        .finish = finish,
        .time = time});
}

Engine::Stream& Engine::FindStream(RequestId id) {
  const auto found = streams_.find(id);
  DECANT_CHECK(found != streams_.end(), "request {} has ended", id);
  return found->second;
}

/// Sends an update, complete but for its counts, to its request's sink; with a finish reason it is
/// the sample's last one.
void Engine::Send(StreamUpdate update) {
  Stream& stream = FindStream(update.request);
  SampleStream& sample = stream.samples[update.sample];
  DECANT_CHECK(!sample.ended, "sample {} of request {} has ended", update.sample, update.request);
  update.prompt_tokens = stream.prompt_tokens;
  update.generated_tokens = sample.generated_tokens;
  update.admitted_time = stream.admitted_time;
  stream.sink(update);
  if (!update.finish) return;
  sample.ended = true;
  if (--stream.alive == 0) streams_.erase(update.request);
  ++ended_[static_cast<size_t>(*update.finish)];
}

/// Tells a request's sink that all samples which are left have ended.
void Engine::SendEnd(RequestId id, FinishReason reason, const Status& status) {
  Stream& stream = FindStream(id);
  const auto samples = Narrow<int32_t>(stream.samples.size());
  int32_t left = stream.alive;  // The stream dies with the last.
  for (int32_t i = 0; left > 0 && i < samples; ++i) {
    if (stream.samples[i].ended) continue;
    --left;
    Send({.request = id, .sample = i, .finish = reason, .status = status, .time = SteadyNanos()});
  }
}

void Engine::EndAll(FinishReason reason, const Status& status) {
  std::vector<RequestId> ids;
  ids.reserve(streams_.size());
  for (const auto& [id, stream] : streams_) ids.push_back(id);
  std::ranges::sort(ids);
  for (const RequestId id : ids) SendEnd(id, reason, status);
}

/// Ends everything after an error of the device, and the loop with it.
void Engine::Fail(const Status& status) {
  // The runner may still read the plans that it was given, so they must not die before.
  for (const Flight& flight : flights_) static_cast<void>(runner_->Wait(flight.ticket, result_));
  flights_.clear();
  scheduler_.Abandon();
  {
    const std::lock_guard lock(mutex_);
    refusal_ = status.WithContext("the engine has failed");
    rows_.clear();
    received_arrivals_.swap(arrivals_);
  }
  for (Arrival& arrival : received_arrivals_) {
    streams_.emplace(arrival.request.id, std::move(arrival.stream));
  }
  EndAll(FinishReason::kFailed, status);
}

/// Copies how things stand to where Stats finds it, once a turn of the loop, when all that was
/// computed is counted: whoever sees that nothing runs sees the last figures. Lets Drain return if
/// no request is left and no step is in flight. mutex_ is held.
void Engine::Publish() {
  stats_.running = scheduler_.running();
  stats_.pages_in_use = PagesInUse();
  for (size_t reason = 0; reason < ended_.size(); ++reason) {
    stats_.finished[reason] += ended_[reason];
    alive_ -= Narrow<int32_t>(ended_[reason]);
  }
  ended_ = {};
  resting_ = scheduler_.idle();
  if (resting_) drained_.notify_all();
}

}  // namespace decant
