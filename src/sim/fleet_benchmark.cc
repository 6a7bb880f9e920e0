#include <benchmark/benchmark.h>

#include "sim/fleet.h"
#include "sim/plan_traffic.h"
#include "sim/test_device.h"

namespace decant {
namespace {

/// The usual mix on range(1) machines at about 20 requests a second each; items are requests. One
/// thread, so that items a second are of one core.
void BM_Fleet(benchmark::State& state) {
  const auto machines = static_cast<int32_t>(state.range(1));
  const int32_t requests = 1000 * machines;
  const PlanTraffic traffic = DrawTraffic({}, requests, 0, 1 << 20);
  const StepTimeModel model =
      StepTimeModel::Create(TestDevice(true), SimulatedKernel::kFlash, 256).value();
  const FleetConfig config{
      .machines = machines,
      .engine = {.max_batch = 32, .chunk_tokens = 512, .num_pages = 4096, .page_size = 256},
      .policy = static_cast<RoutingPolicy>(state.range(0))};
  for ([[maybe_unused]] const auto& _ : state) {
    const FleetTraffic offered{.requests = traffic.requests, .speedup = 20.0 * machines};
    benchmark::DoNotOptimize(RunFleet(config, model, offered, {}).value().kept);
  }
  state.SetItemsProcessed(state.iterations() * requests);
}
BENCHMARK(BM_Fleet)
    ->ArgNames({"policy", "machines"})
    ->ArgsProduct({{static_cast<int64_t>(RoutingPolicy::kRoundRobin),
                    static_cast<int64_t>(RoutingPolicy::kLeastLoaded)},
                   {1, 10, 100}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace decant
