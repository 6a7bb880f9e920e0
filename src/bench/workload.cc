#include "bench/workload.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"

namespace decant {
namespace {

int32_t Scaled(int32_t value, double scale) {
  return std::max(1, static_cast<int32_t>(std::lround(value * scale)));
}

}  // namespace

int64_t Workload::prompt_tokens() const {
  int64_t sum = 0;
  for (const WorkItem& item : items) sum += static_cast<int64_t>(item.prompt.size());
  return sum;
}

int64_t Workload::budget_tokens() const {
  int64_t sum = 0;
  for (const WorkItem& item : items) sum += item.budget;
  return sum;
}

int32_t Workload::longest() const {
  int32_t longest = 0;
  for (const WorkItem& item : items) longest = std::max(longest, item.positions());
  return longest;
}

Status ValidateWorkloadOptions(const WorkloadOptions& options) {
  if (options.prompt_lengths.empty()) return InvalidArgument("no prompt length is given");
  for (const int32_t length : options.prompt_lengths) {
    if (length < 1 || length > 1 << 20) {
      return InvalidArgument("a prompt length of {} is not in [1, {}]", length, 1 << 20);
    }
  }
  if (options.min_budget < 1 || options.max_budget < options.min_budget ||
      options.max_budget > 1 << 20) {
    return InvalidArgument(
        "budgets of {} to {} tokens: the first must be at least 1, the last at "
        "least the first and at most {}",
        options.min_budget, options.max_budget, 1 << 20);
  }
  if (!(options.scale > 0 && options.scale <= 64)) {
    return InvalidArgument("a scale of {} is not in (0, 64]", options.scale);
  }
  return Status();
}

WorkItem MakeWorkItem(const WorkloadOptions& options, uint64_t index,
                      std::span<const Token> alphabet) {
  DECANT_CHECK(!alphabet.empty());
  // Seed and index share the key; the first draws shape the request, the later ones fill it.
  const CounterRng rng(CounterRng(options.seed).Bits(index + 1));
  const uint64_t choice = rng.Below(0, options.prompt_lengths.size());
  const auto spread = static_cast<uint64_t>(options.max_budget - options.min_budget) + 1;
  const int32_t budget = options.min_budget + Narrow<int32_t>(rng.Below(1, spread));
  WorkItem item;
  item.prompt.resize(static_cast<size_t>(Scaled(options.prompt_lengths[choice], options.scale)));
  for (size_t i = 0; i < item.prompt.size(); ++i) {
    item.prompt[i] = alphabet[rng.Below(i + 2, alphabet.size())];
  }
  item.budget = Scaled(budget, options.scale);
  return item;
}

Workload MakeWorkload(std::string name, const WorkloadOptions& options, int32_t count,
                      std::span<const Token> alphabet) {
  DECANT_CHECK(count >= 0);
  Workload workload{.name = std::move(name), .items = {}};
  for (int32_t i = 0; i < count; ++i) {
    workload.items.push_back(MakeWorkItem(options, static_cast<uint64_t>(i), alphabet));
  }
  return workload;
}

}  // namespace decant
