#pragma once

#include <cstdint>
#include <vector>

#include "sched/step_plan.h"

namespace decant {

/// What a step's time depends on: counts that its plan has.
struct StepLoad {
  int32_t prompt_tokens = 0;           ///< Of all chunks.
  int32_t decode_tokens = 0;           ///< Rows that decode.
  int64_t decode_positions = 0;        ///< Context lengths of these rows, added up.
  int64_t prompt_positions = 0;        ///< Of the rows with a chunk.
  int32_t longest_prompt_context = 0;  ///< Positions that the furthest chunk reads.
  double prompt_pairs = 0;             ///< Pairs of a query and a key, over all chunks.

  int32_t tokens() const { return prompt_tokens + decode_tokens; }
  int64_t positions() const { return decode_positions + prompt_positions; }
};

StepLoad LoadOf(const StepPlan& plan);

/// A row's prompt, of which `done` positions are computed and `left` are not.
struct PromptLeft {
  int32_t done = 0;
  int32_t left = 0;
};

/// What the next step computes in any case, and the prompts that its chunks can come from.
struct StepOutlook {
  int32_t decode_tokens = 0;
  int64_t decode_positions = 0;       ///< Context lengths once the step has run.
  std::vector<PromptLeft> prompts{};  ///< In the order in which they get chunks.

  int64_t prompt_tokens_left() const;
};

/// The load of the next step if its chunks have `chunk_tokens` prompt tokens together, or what is
/// left where that is less.
StepLoad LoadAt(const StepOutlook& outlook, int32_t chunk_tokens);

}  // namespace decant
