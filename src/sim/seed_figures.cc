#include "sim/seed_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/narrow.h"
#include "bench/arrivals.h"
#include "sim/named_workload.h"
#include "sim/seed_fit.h"
#include "sim/simulation.h"

namespace decant {
namespace {

constexpr int32_t kCappedPages64 = 292;  // 0.5 GiB of 28 KiB a slot
constexpr int32_t kCappedPages256 = 73;

std::vector<SeedFigure> MakeFigures() {
  const SeedFigure part7{.name = "rows-64, older", .older_version = true};
  const SeedFigure newer{.name = "rows-64"};
  const SeedFigure wide{.name = "rows-256", .page_size = 256};
  const SeedFigure flash{.name = "flash-256", .kernel = SimulatedKernel::kFlash, .page_size = 256};
  std::vector<SeedFigure> figures;
  const auto served = [&](SeedFigure engine, double rate, double published) {
    engine.rate = rate;
    engine.published = published;
    engine.name += fmt::format(", rate {}: served/s", rate);
    figures.push_back(std::move(engine));
  };
  const auto queue = [&](SeedFigure engine, double rate, double published) {
    engine.quantity = SeedQuantity::kQueue;
    engine.rate = rate;
    engine.published = published;
    engine.name += fmt::format(", rate {}: median queue s", rate);
    figures.push_back(std::move(engine));
  };
  const auto closed = [&](SeedFigure engine, int32_t batch, double published) {
    engine.quantity = SeedQuantity::kWall;
    engine.requests = batch;
    engine.published = published;
    engine.name += fmt::format(", closed mixed-{}: s", batch);
    figures.push_back(std::move(engine));
  };
  const auto capped = [](SeedFigure engine) {
    engine.name += ", 0.5 GiB";
    engine.num_pages = engine.page_size == 64 ? kCappedPages64 : kCappedPages256;
    return engine;
  };
  served(part7, 5, 4.28);
  served(part7, 6, 4.39);
  served(part7, 7, 4.53);
  served(newer, 6, 4.57);
  served(wide, 5, 4.28);
  served(wide, 6, 4.44);
  served(wide, 7, 4.62);
  served(flash, 7, 5.42);
  served(flash, 8, 5.68);
  served(flash, 9, 5.49);
  closed(part7, 8, 8.83);
  closed(part7, 32, 12.03);
  closed(newer, 32, 11.36);
  closed(flash, 32, 9.36);
  served(capped(part7), 2, 1.85);
  served(capped(flash), 2, 1.87);
  served(capped(part7), 3, 2.53);
  served(capped(flash), 3, 2.74);
  queue(part7, 5, 1.38);
  queue(flash, 5, 0.02);
  queue(capped(part7), 3, 7.63);
  queue(capped(flash), 3, 1.71);
  return figures;
}

}  // namespace

std::span<const SeedFigure> SeedFigures() {
  static const std::vector<SeedFigure> figures = MakeFigures();
  return figures;
}

std::span<const SeedRatio> SeedRatios() {
  static const auto at = [](std::string_view name) {
    const auto found = std::ranges::find(SeedFigures(), name, &SeedFigure::name);
    DECANT_CHECK(found != SeedFigures().end(), "no figure {}", name);
    return static_cast<size_t>(found - SeedFigures().begin());
  };
  static const std::vector<SeedRatio> ratios = {
      {.name = "the kernel alone at rate 7: flash-256 by rows-256",
       .over = at("flash-256, rate 7: served/s"),
       .under = at("rows-256, rate 7: served/s")},
      {.name = "capacity: flash-256 at rate 8 by rows-64, older, at rate 7",
       .over = at("flash-256, rate 8: served/s"),
       .under = at("rows-64, older, rate 7: served/s")},
      {.name = "closed mixed-32: rows-64 by flash-256",
       .over = at("rows-64, closed mixed-32: s"),
       .under = at("flash-256, closed mixed-32: s")},
      {.name = "0.5 GiB at rate 3: flash-256 by rows-64, older",
       .over = at("flash-256, 0.5 GiB, rate 3: served/s"),
       .under = at("rows-64, older, 0.5 GiB, rate 3: served/s")}};
  return ratios;
}

Expected<double> SimulateSeedFigure(const SeedFigure& figure, const StepTimeParameters& device,
                                    uint64_t draw) {
  StepTimeParameters parameters = device;
  if (figure.older_version) parameters.step_seconds += kOlderVersionSeconds;
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(parameters, figure.kernel, figure.page_size));
  const int64_t pool_pages = device.pool_slots / figure.page_size;
  const SimulatedEngineConfig config{
      .num_pages = figure.num_pages > 0 ? figure.num_pages : Narrow<int32_t>(pool_pages),
      .page_size = figure.page_size};
  DECANT_ASSIGN_OR_RETURN(Workload workload,
                          NamedWorkloadOf(fmt::format("mixed seed {}", draw), figure.requests));
  std::vector<SimulatedRequest> requests;
  if (figure.rate > 0) {
    const Traffic traffic = PoissonTraffic(std::move(workload), draw, figure.rate);
    requests = RequestsOf(traffic.workload, traffic.arrivals);
  } else {
    requests = RequestsOf(workload, {});
  }
  DECANT_ASSIGN_OR_RETURN(const auto engine, Simulate(config, model, requests));
  const SimulatedEngine* const engines[] = {engine.get()};
  const SimulationSummary summary = Summarize(engines);
  switch (figure.quantity) {
    case SeedQuantity::kServed:
      return summary.served_rate;
    case SeedQuantity::kQueue:
      return summary.queue_median;
    case SeedQuantity::kWall:
      return summary.wall;
  }
  return Error(StatusCode::kInternal, "no quantity {}", static_cast<int>(figure.quantity));
}

}  // namespace decant
