#include <benchmark/benchmark.h>

#include <vector>

#include "bench/arrivals.h"
#include "sim/simulation.h"
#include "sim/test_device.h"

namespace decant {
namespace {

/// Requests of the usual mix at a load that keeps about `rows` busy; items are requests.
void BM_Simulate(benchmark::State& state) {
  constexpr int32_t kRequests = 4000;
  const std::vector<Token> alphabet = {0};
  const Workload workload = MakeWorkload("mixed", {}, kRequests, alphabet);
  std::vector<double> arrivals = PoissonArrivals(kRequests, 0);
  for (double& arrival : arrivals) arrival /= static_cast<double>(state.range(0));
  const std::vector<SimulatedRequest> requests = RequestsOf(workload, arrivals);
  const StepTimeModel model =
      StepTimeModel::Create(TestDevice(true), SimulatedKernel::kFlash, 256).value();
  const SimulatedEngineConfig config{
      .max_batch = 32, .chunk_tokens = 512, .num_pages = 4096, .page_size = 256};
  for ([[maybe_unused]] const auto& _ : state) {
    benchmark::DoNotOptimize(Simulate(config, model, requests).value()->now());
  }
  state.SetItemsProcessed(state.iterations() * kRequests);
}
BENCHMARK(BM_Simulate)->Arg(2)->Arg(20)->Arg(80);

}  // namespace
}  // namespace decant
