#include "sim/fault_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/random.h"

namespace decant {
namespace {

constexpr int32_t kMostRequests = 24;

/// Draws in sequence.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_(seed) {}

  int32_t Between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.Below(draw_++, static_cast<uint64_t>(high - low) + 1));
  }
  bool OneIn(int32_t odds) { return Between(1, odds) == 1; }
  uint64_t Bits() { return rng_.Bits(draw_++); }

 private:
  CounterRng rng_;
  uint64_t draw_ = 0;
};

int32_t DrawPageSize(Dice& dice) {
  constexpr int32_t kUsual[] = {1, 16, 64, 256};
  const int32_t usual = dice.Between(0, 5);
  return usual < 4 ? kUsual[usual] : dice.Between(2, 100);
}

HistorySetup DrawSetup(Dice& dice) {
  HistorySetup setup{.page_size = DrawPageSize(dice)};
  const int32_t most_pages = std::max(10, 160 / setup.page_size);
  setup.num_pages = dice.Between(1, dice.OneIn(4) ? 2 * most_pages : most_pages);
  setup.scheduler.max_batch = dice.Between(1, dice.OneIn(8) ? 16 : 6);
  setup.scheduler.chunk_tokens =
      dice.OneIn(3) ? dice.Between(1, 8) : dice.Between(8, 2 * setup.page_size + 40);
  setup.scheduler.limits = {.max_model_len = dice.Between(2, 600),
                            .vocab_size = dice.Between(4, 200)};
  setup.lookahead = dice.OneIn(4) ? Lookahead::kNone : Lookahead::kOneStep;
  return setup;
}

ArrivalEvent DrawArrival(RequestId id, const HistorySetup& setup, Dice& dice) {
  // One more than fits, now and then.
  const int32_t most =
      std::min(setup.scheduler.limits.max_model_len, setup.num_pages * setup.page_size) + 1;
  ArrivalEvent arrival{.id = id};
  arrival.prompt_tokens = dice.Between(1, dice.OneIn(8) ? most : std::min(most, 40));
  arrival.budget = dice.Between(1, dice.OneIn(4) ? 40 : 12);
  if (dice.OneIn(3)) arrival.samples = dice.Between(1, 4);
  arrival.end_tokens = dice.Between(0, 2);
  arrival.greedy = dice.OneIn(2);
  if (dice.OneIn(8)) arrival.stop_after = dice.Between(1, arrival.budget);
  if (dice.OneIn(8)) arrival.turns_a_token = dice.Between(1, 4);
  arrival.twice = dice.OneIn(16);
  arrival.seed = dice.Bits();
  return arrival;
}

/// "1 page", "2 pages".
std::string Number(int32_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string Describe(const ArrivalEvent& arrival) {
  std::string line = fmt::format("request {} arrives: {}, budget {}", arrival.id,
                                 Number(arrival.prompt_tokens, "prompt token"), arrival.budget);
  if (arrival.samples > 1) line += fmt::format(", {} samples", arrival.samples);
  if (arrival.end_tokens > 0) line += ", " + Number(arrival.end_tokens, "end token");
  if (!arrival.greedy) line += ", drawn";
  if (arrival.stop_after > 0) line += ", stops after " + Number(arrival.stop_after, "token");
  if (arrival.turns_a_token > 0) {
    line += ", its caller reads a token every " + Number(arrival.turns_a_token, "turn");
  }
  if (arrival.twice) line += ", and another of the same id";
  return line;
}

std::string Describe(const CancelEvent& cancel) {
  return cancel.sample
             ? fmt::format("request {}, sample {} is cancelled", cancel.id, *cancel.sample)
             : fmt::format("request {} is cancelled", cancel.id);
}

std::string Describe(const TurnEvent& turn) {
  if (turn.stalls) return "turn whose step stalls";
  return turn.waits_for_all ? "turn that waits for all steps" : "turn";
}

std::string Describe(const FailureEvent& failure) {
  return failure.in_launch ? "the next launch fails" : "the next wait fails";
}

std::string Describe(const StopEvent& /*stop*/) { return "the engine is stopped"; }

}  // namespace

FaultHistory DrawHistory(uint64_t seed) {
  Dice dice(seed);
  FaultHistory history{.seed = seed, .setup = DrawSetup(dice)};
  std::vector<HistoryEvent>& events = history.events;
  const int32_t requests = dice.Between(1, kMostRequests);
  const int32_t arrival_odds = dice.Between(1, 8);
  const int32_t cancel_odds = dice.OneIn(4) ? 0 : dice.Between(4, 40);
  const int32_t stall_odds = dice.OneIn(2) ? 0 : dice.Between(2, 20);
  const int32_t waits_odds = dice.OneIn(2) ? 0 : dice.Between(2, 20);
  const int32_t end_odds = dice.Between(0, 9);  // 0: it fails; 1: it is stopped
  int32_t turns_left = dice.Between(0, 40);     // after the last arrival
  RequestId next_id = 1;
  while (next_id <= static_cast<RequestId>(requests) || turns_left > 0) {
    while (next_id <= static_cast<RequestId>(requests) && dice.Between(0, arrival_odds) == 0) {
      events.emplace_back(DrawArrival(next_id++, history.setup, dice));
    }
    if (cancel_odds > 0 && dice.OneIn(cancel_odds)) {
      // The youngest are those that may still wait; one more than there is, now and then.
      const auto last = static_cast<int32_t>(next_id);
      const int32_t first = dice.OneIn(2) ? std::max(last - 3, 1) : 1;
      CancelEvent cancel{.id = static_cast<RequestId>(dice.Between(first, last))};
      if (dice.OneIn(2)) cancel.sample = dice.Between(0, 3);
      events.emplace_back(cancel);
    }
    events.emplace_back(TurnEvent{.stalls = stall_odds > 0 && dice.OneIn(stall_odds),
                                  .waits_for_all = waits_odds > 0 && dice.OneIn(waits_odds)});
    if (next_id > static_cast<RequestId>(requests)) --turns_left;
  }
  if (end_odds <= 1) {
    const auto at = dice.Between(0, static_cast<int32_t>(events.size()));
    HistoryEvent end = StopEvent{};
    if (end_odds == 0) end = FailureEvent{.in_launch = dice.OneIn(2)};
    events.insert(events.begin() + at, end);
  }
  return history;
}

Request MakeRequest(const ArrivalEvent& arrival, const HistorySetup& setup) {
  Dice dice(arrival.seed);
  const int32_t last_token = *setup.scheduler.limits.vocab_size - 1;
  Request request{.id = arrival.id, .max_new_tokens = arrival.budget, .samples = arrival.samples};
  for (int32_t i = 0; i < arrival.end_tokens; ++i) {
    request.stop_tokens.push_back(dice.Between(0, last_token));
  }
  request.sampling = {.temperature = arrival.greedy ? 0.0F : 1.0F, .seed = dice.Bits()};
  request.prompt.resize(arrival.prompt_tokens);
  for (Token& token : request.prompt) token = dice.Between(0, last_token);
  return request;
}

std::vector<std::string> DescribeHistory(const FaultHistory& history) {
  const HistorySetup& setup = history.setup;
  std::vector<std::string> lines = {fmt::format(
      "{} of {}, {}, chunks of {}, {} a request, {} in flight", Number(setup.num_pages, "page"),
      setup.page_size, Number(setup.scheduler.max_batch, "row"), setup.scheduler.chunk_tokens,
      Number(setup.scheduler.limits.max_model_len, "position"),
      setup.lookahead == Lookahead::kNone ? "no step" : "one step")};
  int32_t alike = 0;
  std::string last;
  const auto put = [&] {
    if (alike > 0) lines.push_back(alike == 1 ? last : fmt::format("{} (x{})", last, alike));
  };
  for (const HistoryEvent& event : history.events) {
    const std::string line = std::visit([](const auto& is) { return Describe(is); }, event);
    if (line != last) {
      put();
      alike = 0;
      last = line;
    }
    ++alike;
  }
  put();
  lines.emplace_back("turns until nothing is left to do");
  return lines;
}

}  // namespace decant
