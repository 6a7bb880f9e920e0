#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "sched/step_plan.h"

namespace decant {

/// A hash of `tokens` in their order that goes on from `hash`, the hash of what stands before them
/// (0: nothing). The same on every machine.
inline uint64_t HashTokens(uint64_t hash, std::span<const Token> tokens) {
  for (const Token token : tokens) hash = CounterRng(hash).Bits(static_cast<uint64_t>(token));
  return hash;
}

}  // namespace decant
