#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/status.h"
#include "sim/fault_history.h"
#include "sim/fault_run.h"
#include "sim/mutation.h"
#include "sim/scheduler_subject.h"

namespace decant {

struct MutationEntry {
  Mutation mutation;
  std::string_view name;  ///< As --mutation takes it.
  std::string_view what;
};

/// All of them but kNone, in the order of the enumeration.
std::span<const MutationEntry> Mutations();

/// Invalid argument: no mutation has this name; the message lists those there are.
Expected<Mutation> ParseMutation(std::string_view name);

/// The scheduler and the pool compiled from the engine's sources with this one fault in them; with
/// kNone, from the same sources without one.
SubjectFactory MutatedSubjects(Mutation mutation);

/// The first history that shows a mutation.
struct CaughtMutation {
  uint64_t seed = 0;
  int64_t histories = 0;  ///< Up to this one.
  Breach breach{};
  FaultHistory shrunk{};
};

/// Lets histories of the seeds from `first_seed` on happen to a mutation until one breaks a
/// promise; none if `most_histories` do not.
std::optional<CaughtMutation> CatchMutation(Mutation mutation, uint64_t first_seed,
                                            int64_t most_histories);

}  // namespace decant
