#include "sched/step_load.h"

#include <algorithm>

namespace decant {
namespace {

/// Counts a chunk whose last query is at `context_len` - 1. Query i of it reads all positions up to
/// its own.
void AddChunk(int32_t query_len, int32_t context_len, StepLoad& load) {
  load.prompt_tokens += query_len;
  load.prompt_positions += context_len;
  load.longest_prompt_context = std::max(load.longest_prompt_context, context_len);
  load.prompt_pairs += query_len * (context_len - (query_len - 1) / 2.0);
}

}  // namespace

StepLoad LoadOf(const StepPlan& plan) {
  StepLoad load;
  for (const PlannedRow& row : plan.rows) {
    if (!row.prompt_tokens.empty()) {
      AddChunk(row.query_len, row.context_len, load);
    } else {
      ++load.decode_tokens;
      load.decode_positions += row.context_len;
    }
  }
  return load;
}

int64_t StepOutlook::prompt_tokens_left() const {
  int64_t sum = 0;
  for (const PromptLeft& prompt : prompts) sum += prompt.left;
  return sum;
}

StepLoad LoadAt(const StepOutlook& outlook, int32_t chunk_tokens) {
  StepLoad load{.decode_tokens = outlook.decode_tokens,
                .decode_positions = outlook.decode_positions};
  for (const PromptLeft& prompt : outlook.prompts) {
    const int32_t query_len = std::min(prompt.left, chunk_tokens - load.prompt_tokens);
    if (query_len <= 0) break;
    AddChunk(query_len, prompt.done + query_len, load);
  }
  return load;
}

}  // namespace decant
