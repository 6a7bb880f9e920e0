#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
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

}  // namespace decant
