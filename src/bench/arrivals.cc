#include "bench/arrivals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace decant {
namespace {

/// The workload of the same seed has keys of its own: what arrives does not depend on when.
constexpr uint64_t kArrivalKey = 0x6172726976616c73;

std::vector<Token> RandomPrompt(uint64_t index, int32_t length, std::span<const Token> alphabet) {
  const CounterRng rng(index);
  std::vector<Token> prompt(static_cast<size_t>(length));
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = alphabet[rng.Below(i, alphabet.size())];
  return prompt;
}

}  // namespace

double Traffic::OfferedRate() const {
  const double span = arrivals.empty() ? 0 : arrivals.back();
  return span > 0 ? static_cast<double>(arrivals.size()) / span
                  : std::numeric_limits<double>::infinity();
}

std::vector<double> PoissonArrivals(int32_t count, uint64_t seed) {
  DECANT_CHECK(count >= 0);
  const CounterRng rng(CounterRng(seed).Bits(kArrivalKey));
  std::vector<double> arrivals(static_cast<size_t>(count));
  for (size_t i = 1; i < arrivals.size(); ++i) {
    arrivals[i] = arrivals[i - 1] - std::log1p(-rng.Uniform(i));
  }
  return arrivals;
}

Traffic PoissonTraffic(Workload workload, uint64_t seed, double rate) {
  DECANT_CHECK(rate > 0, "a rate of {}", rate);
  Traffic traffic{.workload = std::move(workload)};
  traffic.arrivals = PoissonArrivals(static_cast<int32_t>(traffic.workload.items.size()), seed);
  for (double& arrival : traffic.arrivals) arrival /= rate;
  return traffic;
}

Expected<Traffic> TraceTraffic(std::span<const TraceRequest> trace, int32_t longest, double speedup,
                               std::span<const Token> alphabet) {
  DECANT_CHECK(speedup > 0 && !alphabet.empty(), "a speed-up of {}", speedup);
  Traffic traffic;
  double first = 0;
  for (const TraceRequest& request : trace) {
    if (int64_t{request.prompt_tokens} + request.output_tokens > longest) {
      ++traffic.left_out;
      continue;
    }
    const size_t index = traffic.arrivals.size();
    if (index == 0) first = request.arrival;
    traffic.arrivals.push_back((request.arrival - first) / speedup);
    traffic.workload.items.push_back(
        {.prompt = RandomPrompt(index, request.prompt_tokens, alphabet),
         .budget = request.output_tokens});
  }
  if (traffic.arrivals.empty()) {
    return InvalidArgument(
        "none of the trace's {} requests has at most {} positions, which is what the model and "
        "the pool can hold",
        trace.size(), longest);
  }
  return traffic;
}

}  // namespace decant
