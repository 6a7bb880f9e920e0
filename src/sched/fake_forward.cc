#include "sched/fake_forward.h"

#include <algorithm>
#include <utility>

#include "base/narrow.h"
#include "base/random.h"

namespace decant {
namespace {

constexpr int32_t kNoPosition = -1;

template <typename... Args>
Status Illegal(const PlannedRow& row, fmt::format_string<Args...> format, Args&&... args) {
  return Error(StatusCode::kInternal, "request {}, sample {}, in row {}: {}", row.request,
               row.sample, row.row, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace

FakeForward::FakeForward(int32_t num_pages, int32_t page_size, int32_t max_batch,
                         int32_t vocab_size)
    : page_size_(page_size),
      vocab_size_(vocab_size),
      slots_(static_cast<size_t>(num_pages) * page_size, Slot{kNoPosition, 0}),
      last_token_(max_batch) {}

Expected<StepResult> FakeForward::Run(const StepPlan& plan) {
  StepResult result{.step = plan.step};
  const PlannedRow* previous = nullptr;
  for (const PlannedRow& row : plan.rows) {
    if (row.row < 0 || std::cmp_greater_equal(row.row, last_token_.size())) {
      return Illegal(row, "the batch has {} rows", last_token_.size());
    }
    if (previous != nullptr && previous->row >= row.row) {
      return Illegal(row, "follows row {}", previous->row);
    }
    DECANT_RETURN_IF_ERROR(Append(row));
    previous = &row;
  }
  std::ranges::fill(last_token_, std::nullopt);
  for (const PlannedRow& row : plan.rows) {
    DECANT_RETURN_IF_ERROR(ReadHistory(row));
    if (history_observer_) history_observer_(row, history_);
    if (!row.samples) continue;
    const Token token = NextToken(history_, row.sampling, row.sample_index);
    last_token_[row.row] = token;
    result.tokens.push_back({.request = row.request, .row = row.row, .token = token});
  }
  return result;
}

Status FakeForward::Append(const PlannedRow& row) {
  const int32_t first = row.context_len - row.query_len;
  const bool decodes = row.prompt_tokens.empty();
  if (row.query_len < 1 || first < 0) {
    return Illegal(row, "query length {}, context length {}", row.query_len, row.context_len);
  }
  if (decodes ? row.query_len != 1 : std::cmp_not_equal(row.prompt_tokens.size(), row.query_len)) {
    return Illegal(row, "{} tokens for a query length of {}", row.prompt_tokens.size(),
                   row.query_len);
  }
  if (decodes && !last_token_[row.row]) {
    return Illegal(row, "the row sampled nothing in the step before");
  }
  const auto capacity = static_cast<int64_t>(row.pages.size()) * page_size_;
  if (row.context_len > capacity) {
    return Illegal(row, "{} positions in pages for {}", row.context_len, capacity);
  }
  for (const int32_t page : row.pages) {
    if (page < 0 || std::cmp_greater_equal(page, slots_.size() / page_size_)) {
      return Illegal(row, "page {} is not in the pool", page);
    }
  }
  for (int32_t i = 0; i < row.query_len; ++i) {
    Slot& slot = SlotAt(row, first + i);
    if (slot.position != kNoPosition) {
      return Illegal(row, "the slot of position {} was written before, for position {}", first + i,
                     slot.position);
    }
    slot = {first + i, decodes ? *last_token_[row.row] : row.prompt_tokens[i]};
  }
  return {};
}

Status FakeForward::ReadHistory(const PlannedRow& row) {
  history_.clear();
  for (int32_t position = 0; position < row.context_len; ++position) {
    const Slot& slot = SlotAt(row, position);
    if (slot.position != position) {
      return Illegal(row, "the slot of position {} holds position {}", position, slot.position);
    }
    history_.push_back(slot.token);
  }
  return {};
}

void FakeForward::Poison(std::span<const int32_t> pages) {
  for (const int32_t page : pages) {
    const auto begin = slots_.begin() + static_cast<int64_t>(page) * page_size_;
    std::fill(begin, begin + page_size_, Slot{kNoPosition, 0});
  }
}

Token FakeForward::NextToken(std::span<const Token> history, const SamplingParams& sampling,
                             uint64_t sample_index) const {
  uint64_t hash = sampling.greedy() ? 0 : CounterRng(sampling.seed).Bits(sample_index);
  for (const Token token : history) hash = CounterRng(hash).Bits(static_cast<uint64_t>(token));
  return Narrow<Token>(hash % static_cast<uint64_t>(vocab_size_));
}

FakeForward::Slot& FakeForward::SlotAt(const PlannedRow& row, int32_t position) {
  const int32_t page = row.pages[position / page_size_];
  return slots_[static_cast<size_t>(page) * page_size_ + position % page_size_];
}

}  // namespace decant
