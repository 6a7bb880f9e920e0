#include "runtime/host_sampling.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "runtime/logprobs.h"

namespace decant {

namespace {

/// The samples of a request share its prompt: the first one, which computes it from its beginning,
/// tells of it.
bool WantsPromptLogprobs(const PlannedRow& row) {
  return row.sampling.prompt_logprobs.has_value() && row.sample == 0;
}

}  // namespace

std::vector<HostSampling::PromptPosition> HostSampling::PromptPositions(const StepPlan& plan,
                                                                        const PackedBatch& packed) {
  std::vector<PromptPosition> positions;
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PlannedRow& row = plan.rows[i];
    if (!WantsPromptLogprobs(row) || row.prompt_tokens.empty()) continue;
    RowState& state = states_[row.row];
    const int32_t first = row.context_len - row.query_len;
    if (first == 0) state.prompt_logprobs.clear();
    const std::span<const Token> next = row.prompt.subspan(first + 1).first(
        std::min<size_t>(row.query_len, row.prompt.size() - first - 1));
    DECANT_CHECK(state.prompt_logprobs.size() == static_cast<size_t>(first),
                 "request {}'s prompt goes on at {} after {}", row.request, first,
                 state.prompt_logprobs.size());
    state.prompt_logprobs.resize(first + next.size());
    for (size_t k = 0; k < next.size(); ++k) {
      positions.push_back({.token = packed.query_start(i) + static_cast<int32_t>(k),
                           .next = next[k],
                           .top = *row.sampling.prompt_logprobs,
                           .out = &state.prompt_logprobs[first + k]});
    }
  }
  return positions;
}

Status HostSampling::ReportPrompts(const StepPlan& plan, const PackedBatch& packed, Ops& ops,
                                   const HostLogits& logits) {
  const std::vector<PromptPosition> positions = PromptPositions(plan, packed);
  std::vector<int32_t> tokens;
  for (std::span<const PromptPosition> rest = positions; !rest.empty();) {
    const auto block = rest.first(std::min<size_t>(rest.size(), kPromptBlock));
    rest = rest.subspan(block.size());
    tokens.clear();
    for (const PromptPosition& position : block) tokens.push_back(position.token);
    DECANT_ASSIGN_OR_RETURN(const TensorView view, logits(tokens));
    ops.ParallelFor(static_cast<int64_t>(block.size()), [&](int64_t i) {
      *block[i].out = ComputeLogprobs({view.Row<float>(i), static_cast<size_t>(view.cols)},
                                      block[i].next, block[i].top);
    });
  }
  return {};
}

SampledToken HostSampling::Sample(const PlannedRow& row, std::span<const float> logits) {
  RowState& state = states_[row.row];
  state.last_token = state.sampler.Sample(
      logits, row.sampling,
      {.sample_index = row.sample_index, .prompt = row.prompt, .stop_tokens = row.stop_tokens});
  return Report(row, state.last_token, logits);
}

SampledToken HostSampling::Report(const PlannedRow& row, Token token,
                                  std::span<const float> logits) {
  SampledToken sampled{.request = row.request, .row = row.row, .token = token};
  if (row.sampling.logprobs) {
    sampled.logprobs = ComputeLogprobs(logits, token, *row.sampling.logprobs);
  }
  if (WantsPromptLogprobs(row) && row.sample_index == 0) {
    sampled.prompt_logprobs = std::exchange(states_[row.row].prompt_logprobs, {});
  }
  return sampled;
}

}  // namespace decant
