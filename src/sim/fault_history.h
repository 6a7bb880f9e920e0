#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sched/scheduler.h"

namespace decant {

/// How many steps may be in flight while the next one is planned.
enum class Lookahead { kNone, kOneStep };

/// The engine that a history happens to.
struct HistorySetup {
  int32_t page_size = 1;
  int32_t num_pages = 1;
  SchedulerConfig scheduler{};
  Lookahead lookahead = Lookahead::kOneStep;
};

/// A request comes; it stands in the inbox until the next turn.
struct ArrivalEvent {
  RequestId id = 0;
  int32_t prompt_tokens = 1;
  int32_t budget = 1;
  int32_t samples = 1;
  int32_t end_tokens = 0;  ///< How many tokens of the vocabulary end its text.
  bool greedy = true;
  int32_t stop_after = 0;  ///< Its text comes to a stop string at this token; 0: never.
  /// Its caller reads a token every so many turns, and is cut off with more than kUnreadLimit
  /// tokens unread; 0: it reads all at once.
  int32_t turns_a_token = 0;
  bool twice = false;  ///< Its id is given to a second request, which must be refused.
  uint64_t seed = 0;   ///< Of its prompt, end tokens and draws.
};

/// Of a slow reader.
inline constexpr int32_t kUnreadLimit = 8;

/// Somebody gives up a request, or one sample of it; it may wait, run, have ended or never have
/// been. It stands in the inbox until the next turn.
struct CancelEvent {
  RequestId id = 0;
  std::optional<int32_t> sample{};  ///< Absent: all.
};

/// A turn of the engine's loop: what stands in the inbox is received, a step is planned and
/// launched, and the oldest one in flight waited for.
struct TurnEvent {
  /// The step to wait for takes long: it is committed in the next turn only, and what comes
  /// before is received while all of them are in flight.
  bool stalls = false;
  bool waits_for_all = false;  ///< Nothing is left in flight, as if there were no lookahead.
};

/// The next step fails where it is launched, or where it is waited for.
struct FailureEvent {
  bool in_launch = false;
};

/// The engine is stopped: all are cancelled in the next turn.
struct StopEvent {};

using HistoryEvent = std::variant<ArrivalEvent, CancelEvent, TurnEvent, FailureEvent, StopEvent>;

/// What happens to an engine. After the last event come turns until nothing is left to do.
struct FaultHistory {
  uint64_t seed = 0;  ///< It was drawn from; what it became by shrinking has it too.
  HistorySetup setup{};
  std::vector<HistoryEvent> events{};
};

/// Draws engine and events. The same seed gives the same history on every machine.
FaultHistory DrawHistory(uint64_t seed);

/// The request that an arrival brings to an engine.
Request MakeRequest(const ArrivalEvent& arrival, const HistorySetup& setup);

/// One line for the engine, one for each event; turns that are alike and follow on each other share
/// one. For people.
std::vector<std::string> DescribeHistory(const FaultHistory& history);

}  // namespace decant
