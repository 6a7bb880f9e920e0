#include "sim/plan_traffic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"
#include "bench/arrivals.h"

namespace decant {
namespace {

/// Apart from the keys of lengths and arrivals.
constexpr uint64_t kConversationKey = 0x636f6e7665727361;

void Add(const SimulatedRequest& request, int64_t most_slots, PlanTraffic& traffic) {
  if (int64_t{request.prompt_tokens} + request.budget > most_slots) {
    ++traffic.left_out;
  } else {
    traffic.requests.push_back(request);
  }
}

}  // namespace

double PlanTraffic::Rate() const {
  const double span = requests.empty() ? 0 : requests.back().arrival - requests.front().arrival;
  return span > 0 ? static_cast<double>(requests.size()) / span
                  : std::numeric_limits<double>::infinity();
}

PlanTraffic DrawTraffic(const WorkloadOptions& options, int32_t count, uint64_t arrival_seed,
                        int64_t most_slots) {
  const std::vector<Token> alphabet = {0};
  const std::vector<double> arrivals = PoissonArrivals(count, arrival_seed);
  PlanTraffic traffic;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const WorkItem item = MakeWorkItem(options, i, alphabet);
    Add({.arrival = arrivals[i],
         .prompt_tokens = Narrow<int32_t>(item.prompt.size()),
         .budget = item.budget},
        most_slots, traffic);
  }
  traffic.distinct = traffic.requests.size();
  return traffic;
}

PlanTraffic RepeatTrace(std::span<const TraceRequest> trace, int32_t repeat, int64_t most_slots) {
  DECANT_CHECK(!trace.empty() && repeat >= 1, "{} times {} requests", repeat, trace.size());
  const double first = trace.front().arrival;
  const double span = trace.back().arrival - first;
  const double period = span + span / static_cast<double>(std::max<size_t>(trace.size() - 1, 1));
  PlanTraffic traffic;
  for (int32_t round = 0; round < repeat; ++round) {
    for (const TraceRequest& request : trace) {
      Add({.arrival = request.arrival - first + round * period,
           .prompt_tokens = request.prompt_tokens,
           .budget = request.output_tokens},
          most_slots, traffic);
    }
    if (round == 0) traffic.distinct = traffic.requests.size();
  }
  return traffic;
}

std::vector<int32_t> DrawConversations(size_t count, double turns, uint64_t seed) {
  DECANT_CHECK(turns >= 1, "{} turns", turns);
  const CounterRng rng(CounterRng(seed).Bits(kConversationKey));
  const auto conversations =
      static_cast<uint64_t>(std::max(1.0, std::round(static_cast<double>(count) / turns)));
  std::vector<int32_t> of(count);
  for (size_t i = 0; i < count; ++i) {
    of[i] = static_cast<int32_t>(rng.Below(i, conversations));
  }
  return of;
}

}  // namespace decant
