#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

/// A request of a benchmark: random ids, and a budget that is used to its end.
struct WorkItem {
  std::vector<Token> prompt{};
  int32_t budget = 0;  ///< Tokens to generate.

  int32_t positions() const { return static_cast<int32_t>(prompt.size()) + budget; }
};

/// Requests in order of arrival, and what to call them.
struct Workload {
  std::string name{};
  std::vector<WorkItem> items{};

  int64_t prompt_tokens() const;
  int64_t budget_tokens() const;
  int32_t longest() const;  ///< Most positions of one request.
};

/// How prompts and budgets are drawn. The mix of the defaults, a fifth of the requests at each of
/// five lengths and budgets spread evenly, is that of the engine this one is compared with.
struct WorkloadOptions {
  std::vector<int32_t> prompt_lengths = {16, 64, 256, 1024, 4096};  ///< Each as likely, >= 1.
  int32_t min_budget = 64;                                          ///< >= 1.
  int32_t max_budget = 256;                                         ///< Inclusive.
  /// Multiplies lengths and budgets, which stay at least 1: the same mix for a smaller machine.
  double scale = 1;
  uint64_t seed = 0;
};

/// Refuses what WorkloadOptions does not allow, by name.
Status ValidateWorkloadOptions(const WorkloadOptions& options);

/// Request number `index`, whose prompt is ids of `alphabet` (not empty): a function of these
/// three.
WorkItem MakeWorkItem(const WorkloadOptions& options, uint64_t index,
                      std::span<const Token> alphabet);

/// The first `count` requests, so that a longer workload begins with the shorter one.
Workload MakeWorkload(std::string name, const WorkloadOptions& options, int32_t count,
                      std::span<const Token> alphabet);

}  // namespace decant
