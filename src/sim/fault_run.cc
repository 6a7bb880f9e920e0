#include "sim/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/check.h"
#include "sched/fake_forward.h"

namespace decant {
namespace {

class HistoryRun {
 public:
  HistoryRun(const FaultHistory& history, const SubjectFactory& make_subject)
      : history_(history),
        checker_(history.setup.scheduler, history.setup.num_pages, history.setup.page_size),
        forward_(history.setup.num_pages, history.setup.page_size,
                 history.setup.scheduler.max_batch, *history.setup.scheduler.limits.vocab_size),
        subject_(make_subject(history.setup, [this](std::span<const int32_t> pages) {
          forward_.Poison(pages);
          checker_.Freed(pages);
        })) {
    forward_.set_history_observer([this](const PlannedRow& row, std::span<const Token> read) {
      if (!read_wrongly_) read_wrongly_ = checker_.Read(row, read);
    });
  }

  HistoryOutcome Run() {
    for (; outcome_.breach_event < history_.events.size(); ++outcome_.breach_event) {
      const auto happen = [this](const auto& event) { return Happen(event); };
      outcome_.breach = std::visit(happen, history_.events[outcome_.breach_event]);
      if (outcome_.breach) return outcome_;
    }
    outcome_.breach = Finish();
    return outcome_;
  }

 private:
  /// A sample's caller.
  struct Client {
    int32_t turns_a_token = 0;
    int32_t stop_after = 0;
    std::vector<Token> tokens{};  ///< In its buffer, those that it has read included.
    size_t read = 0;
    bool cut_off = false;  ///< For what it had not read.
    std::optional<FinishReason> end{};
  };
  using ClientId = std::pair<RequestId, int32_t>;

  Verdict Happen(const ArrivalEvent& arrival) {
    arrivals_.push_back(&arrival);
    return std::nullopt;
  }

  Verdict Happen(const CancelEvent& cancel) {
    cancels_.push_back(cancel);
    return std::nullopt;
  }

  Verdict Happen(const FailureEvent& failure) {
    failure_ = failure;
    return std::nullopt;
  }

  Verdict Happen(const StopEvent& /*stop*/) {
    stop_ = true;
    return std::nullopt;
  }

  Verdict Happen(const TurnEvent& turn) {
    ++outcome_.counts.turns;
    const bool waits = history_.setup.lookahead == Lookahead::kNone || turn.waits_for_all;
    const size_t may_fly = waits ? 0 : 1;
    DECANT_RETURN_IF_BROKEN(Receive());
    while (flights_.size() > may_fly) DECANT_RETURN_IF_BROKEN(CompleteOldest());
    const StepPlan& plan = subject_->Next();
    DECANT_RETURN_IF_BROKEN(checker_.Planned(plan));
    DECANT_RETURN_IF_BROKEN(checker_.CheckState(subject_->View()));
    if (!plan.empty()) {
      ++outcome_.counts.steps;
      if (failure_ && failure_->in_launch) return Fail();
      flights_.push_back(&plan);
    }
    DECANT_RETURN_IF_BROKEN(LetSlowReadersRead());
    subject_->Progress(progress_);
    DECANT_RETURN_IF_BROKEN(checker_.CheckProgress(progress_));
    if (turn.stalls) return std::nullopt;
    while (flights_.size() > may_fly || (plan.empty() && !flights_.empty())) {
      DECANT_RETURN_IF_BROKEN(CompleteOldest());
    }
    return std::nullopt;
  }

  /// Empties the inbox.
  Verdict Receive() {
    for (const ArrivalEvent* arrival : std::exchange(arrivals_, {})) {
      DECANT_RETURN_IF_BROKEN(Accept(*arrival));
    }
    for (const CancelEvent& cancel : std::exchange(cancels_, {})) {
      DECANT_RETURN_IF_BROKEN(End(cancel.id, cancel.sample, FinishReason::kCancelled));
    }
    if (!std::exchange(stop_, false)) return std::nullopt;
    closed_ = true;
    RequestId last = 0;
    for (const auto& [id, client] : clients_) {
      if (id.first == std::exchange(last, id.first)) continue;
      DECANT_RETURN_IF_BROKEN(End(id.first, std::nullopt, FinishReason::kCancelled));
    }
    return std::nullopt;
  }

  Verdict Accept(const ArrivalEvent& arrival) {
    if (closed_) {
      ++outcome_.counts.refused;
      return std::nullopt;
    }
    const Request request = MakeRequest(arrival, history_.setup);
    const Status status = subject_->Submit(request);
    DECANT_RETURN_IF_BROKEN(checker_.Submitted(request, status));
    if (!status.ok()) {
      ++outcome_.counts.refused;
      return std::nullopt;
    }
    ++outcome_.counts.requests;
    for (int32_t i = 0; i < request.samples; ++i) {
      clients_[{arrival.id, i}] = {.turns_a_token = arrival.turns_a_token,
                                   .stop_after = arrival.stop_after};
    }
    if (arrival.twice) {
      DECANT_RETURN_IF_BROKEN(checker_.Submitted(request, subject_->Submit(request)));
    }
    return checker_.CheckState(subject_->View());
  }

  /// Ends a request or one sample of it, if it lives.
  Verdict End(RequestId id, std::optional<int32_t> sample, FinishReason reason) {
    const bool must_end = checker_.Ending(id, sample);
    const bool ended = subject_->End(id, sample);
    if (ended != must_end) {
      return Breach{Promise::kEndsOnce,
                    fmt::format("to end request {}{} is answered by {}", id,
                                sample ? fmt::format(", sample {},", *sample) : "", ended)};
    }
    if (ended) DECANT_RETURN_IF_BROKEN(TellEnd(id, sample, reason));
    return checker_.CheckState(subject_->View());
  }

  /// Tells those callers of a request who have not been told.
  Verdict TellEnd(RequestId id, std::optional<int32_t> sample, FinishReason reason) {
    bool any = false;
    for (auto client = clients_.lower_bound({id, 0});
         client != clients_.end() && client->first.first == id; ++client) {
      if (client->second.end || (sample && client->first.second != *sample)) continue;
      client->second.end = reason;
      any = true;
      HistoryCounts& counts = outcome_.counts;
      ++(reason == FinishReason::kCancelled ? counts.cancelled
         : reason == FinishReason::kFailed  ? counts.failed
                                            : counts.finished);
    }
    if (any) return std::nullopt;
    return Breach{Promise::kEndsOnce, fmt::format("request {} ends again", id)};
  }

  /// Waits for the oldest step in flight and delivers its tokens.
  Verdict CompleteOldest() {
    if (failure_ && !failure_->in_launch) return Fail();
    const StepPlan& plan = *flights_.front();
    const Expected<StepResult> result = forward_.Run(plan);
    if (!result.ok()) return Breach{Promise::kContext, result.status().message()};
    if (read_wrongly_) return read_wrongly_;
    DECANT_RETURN_IF_BROKEN(checker_.Ran(*result));
    flights_.pop_front();
    const std::span<const TokenEvent> events = subject_->Commit(*result);
    DECANT_RETURN_IF_BROKEN(checker_.Committed(events));
    DECANT_RETURN_IF_BROKEN(checker_.CheckState(subject_->View()));
    for (const TokenEvent& event : events) DECANT_RETURN_IF_BROKEN(Deliver(event));
    return std::nullopt;
  }

  Verdict Deliver(const TokenEvent& event) {
    Client& client = clients_.at({event.request, event.sample});
    if (client.end) {
      return Breach{Promise::kEndsOnce,
                    fmt::format("request {}, sample {} gets a token after {}", event.request,
                                event.sample, FinishReasonName(*client.end))};
    }
    client.tokens.push_back(event.token);
    ++outcome_.counts.tokens;
    if (event.finish) return TellEnd(event.request, event.sample, *event.finish);
    if (std::cmp_equal(client.stop_after, client.tokens.size())) {
      return End(event.request, event.sample, FinishReason::kStopString);
    }
    if (client.turns_a_token == 0) return Read(client, event.request, event.sample);
    if (client.tokens.size() - client.read > kUnreadLimit && !std::exchange(client.cut_off, true)) {
      ++outcome_.counts.cut_off;
      cancels_.push_back({.id = event.request, .sample = event.sample});
    }
    return std::nullopt;
  }

  Verdict LetSlowReadersRead() {
    for (auto& [id, client] : clients_) {
      if (client.turns_a_token == 0 || client.read == client.tokens.size()) continue;
      if (outcome_.counts.turns % client.turns_a_token != 0) continue;
      DECANT_RETURN_IF_BROKEN(Read(client, id.first, id.second));
    }
    return std::nullopt;
  }

  /// A caller takes the next token out of its buffer.
  Verdict Read(Client& client, RequestId request, int32_t sample) const {
    const std::span<const Token> sampled = checker_.TokensOf(request, sample);
    const size_t number = client.read++;
    if (number < sampled.size() && sampled[number] == client.tokens[number]) return std::nullopt;
    return Breach{Promise::kTokens, fmt::format("token {} of request {}, sample {} is {}", number,
                                                request, sample, client.tokens[number])};
  }

  /// What Engine does after an error of the device: nothing is accepted any more.
  Verdict Fail() {
    failure_.reset();
    closed_ = true;
    flights_.clear();
    checker_.Abandoning();
    subject_->Abandon();
    for (auto& [id, client] : clients_) {
      if (client.end) continue;
      DECANT_RETURN_IF_BROKEN(TellEnd(id.first, id.second, FinishReason::kFailed));
    }
    return checker_.CheckState(subject_->View());
  }

  /// Turns until nothing is left to do, then the balance.
  Verdict Finish() {
    while (!subject_->idle() || !arrivals_.empty() || !cancels_.empty() || stop_) {
      DECANT_RETURN_IF_BROKEN(Happen(TurnEvent{}));
    }
    DECANT_RETURN_IF_BROKEN(checker_.CheckAllEnded());
    DECANT_RETURN_IF_BROKEN(checker_.CheckState(subject_->View()));
    for (auto& [id, client] : clients_) {
      while (client.read < client.tokens.size()) {
        DECANT_RETURN_IF_BROKEN(Read(client, id.first, id.second));
      }
      const size_t sampled = checker_.TokensOf(id.first, id.second).size();
      if (!client.end || client.read != sampled) {
        return Breach{client.end ? Promise::kTokens : Promise::kEndsOnce,
                      fmt::format("request {}, sample {} got {} tokens of {} and {} end", id.first,
                                  id.second, client.read, sampled, client.end ? "an" : "no")};
      }
    }
    const HistoryCounts& counts = outcome_.counts;
    const auto ended = static_cast<size_t>(counts.finished + counts.cancelled + counts.failed);
    if (ended == clients_.size()) return std::nullopt;
    return Breach{Promise::kEndsOnce,
                  fmt::format("{} samples were accepted, {} ended", clients_.size(), ended)};
  }

  const FaultHistory& history_;
  PromiseChecker checker_;
  FakeForward forward_;
  std::unique_ptr<SchedulerSubject> subject_;
  HistoryOutcome outcome_;
  Verdict read_wrongly_;
  std::deque<const StepPlan*> flights_;
  std::map<ClientId, Client> clients_;
  std::vector<const ArrivalEvent*> arrivals_;
  std::vector<CancelEvent> cancels_;
  std::vector<RowProgress> progress_;
  std::optional<FailureEvent> failure_;
  bool stop_ = false;
  bool closed_ = false;
};

}  // namespace

HistoryCounts& HistoryCounts::operator+=(const HistoryCounts& other) {
  turns += other.turns;
  steps += other.steps;
  requests += other.requests;
  refused += other.refused;
  tokens += other.tokens;
  finished += other.finished;
  cancelled += other.cancelled;
  failed += other.failed;
  cut_off += other.cut_off;
  return *this;
}

HistoryOutcome RunHistory(const FaultHistory& history, const SubjectFactory& make_subject) {
  return HistoryRun(history, make_subject).Run();
}

std::unique_ptr<SchedulerSubject> MakeRealSubject(const HistorySetup& setup,
                                                  PagePool::FreeObserver freed) {
  return std::make_unique<SubjectOf<PagePool, Scheduler>>(setup, std::move(freed));
}

}  // namespace decant
