#include "sim/campaign_check.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "base/narrow.h"
#include "bench/arrivals.h"
#include "bench/quantile.h"
#include "bench/trace_file.h"
#include "sim/named_workload.h"
#include "sim/result_table.h"

namespace decant {
namespace {

constexpr double kMilli = 1e-3;

/// What the rows of closed and open runs have in common.
Expected<CampaignPoint> ReadPoint(const ResultTable& table, size_t row, const std::string& source) {
  CampaignPoint point{.source = source};
  DECANT_ASSIGN_OR_RETURN(point.workload, table.Text(row, "workload"));
  DECANT_ASSIGN_OR_RETURN(const std::string kernel, table.Text(row, "decode_kernel"));
  DECANT_ASSIGN_OR_RETURN(point.kernel, FindSimulatedKernel(kernel));
  for (const auto& [column, value] : {std::pair("page_size", &point.engine.page_size),
                                      std::pair("max_batch", &point.engine.max_batch),
                                      std::pair("chunk_tokens", &point.engine.chunk_tokens)}) {
    DECANT_ASSIGN_OR_RETURN(const int64_t number, table.Integer(row, column));
    *value = Narrow<int32_t>(number);
  }
  DECANT_ASSIGN_OR_RETURN(const double decode, table.Number(row, "decode_p50_ms"));
  DECANT_ASSIGN_OR_RETURN(const double loaded, table.Number(row, "loaded_p50_ms"));
  point.measured_decode_step = decode * kMilli;
  point.measured_loaded_step = loaded * kMilli;
  return point;
}

/// One point for the runs of a batch.
Status ReadClosed(const ResultTable& table, const std::string& source,
                  std::vector<CampaignPoint>& points) {
  using Batch = std::tuple<std::string, int64_t, int64_t, int64_t>;  // and its limits
  std::map<Batch, std::pair<size_t, std::vector<double>>> batches;
  for (size_t row = 0; row < table.rows(); ++row) {
    DECANT_ASSIGN_OR_RETURN(const std::string workload, table.Text(row, "workload"));
    DECANT_ASSIGN_OR_RETURN(const int64_t size, table.Integer(row, "batch_size"));
    DECANT_ASSIGN_OR_RETURN(const int64_t rows, table.Integer(row, "max_batch"));
    DECANT_ASSIGN_OR_RETURN(const int64_t chunk, table.Integer(row, "chunk_tokens"));
    DECANT_ASSIGN_OR_RETURN(const double wall, table.Number(row, "wall_s"));
    auto& batch = batches.try_emplace({workload, size, rows, chunk}, row, std::vector<double>())
                      .first->second;
    batch.second.push_back(wall);
  }
  for (const auto& [name, batch] : batches) {
    DECANT_ASSIGN_OR_RETURN(CampaignPoint point, ReadPoint(table, batch.first, source));
    point.requests = Narrow<int32_t>(std::get<1>(name));
    point.measured = Median(batch.second);
    points.push_back(std::move(point));
  }
  return Status();
}

Status ReadOpen(const ResultTable& table, const std::string& source,
                std::vector<CampaignPoint>& points) {
  for (size_t row = 0; row < table.rows(); ++row) {
    DECANT_ASSIGN_OR_RETURN(CampaignPoint point, ReadPoint(table, row, source));
    DECANT_ASSIGN_OR_RETURN(point.trace, table.Text(row, "trace"));
    DECANT_ASSIGN_OR_RETURN(const int64_t pages, table.Integer(row, "pages"));
    DECANT_ASSIGN_OR_RETURN(const int64_t requests, table.Integer(row, "requests"));
    DECANT_ASSIGN_OR_RETURN(const int64_t seed, table.Integer(row, "seed"));
    DECANT_ASSIGN_OR_RETURN(point.rate, table.Number(row, "rate"));
    DECANT_ASSIGN_OR_RETURN(point.measured, table.Number(row, "served_per_s"));
    DECANT_ASSIGN_OR_RETURN(point.measured_queue, table.Number(row, "queue_p50_s"));
    point.engine.num_pages = Narrow<int32_t>(pages);
    point.requests = Narrow<int32_t>(requests);
    point.arrival_seed = static_cast<uint64_t>(seed);
    points.push_back(std::move(point));
  }
  return Status();
}

/// Reads `path` if it is there.
Status ReadFile(const std::filesystem::path& folder, const std::filesystem::path& path, bool closed,
                std::vector<CampaignPoint>& points) {
  if (!std::filesystem::exists(path)) return Status();
  DECANT_ASSIGN_OR_RETURN(const ResultTable table, ResultTable::Read(path));
  const std::string source = std::filesystem::relative(path, folder).string();
  const Status read = closed ? ReadClosed(table, source, points) : ReadOpen(table, source, points);
  return read.ok() ? read : read.WithContext(path.string());
}

Expected<std::vector<SimulatedRequest>> TraceRequests(const CampaignPoint& point,
                                                      const std::filesystem::path& traces) {
  const size_t mark = point.trace.rfind(" x");
  double speedup = 0;
  if (mark != std::string::npos) {
    std::from_chars(point.trace.data() + mark + 2, point.trace.data() + point.trace.size(),
                    speedup);
  }
  if (!(speedup > 0)) {
    return DataLoss("{}: the trace is '{}'; allowed: 'FILE xSPEEDUP'", point.source, point.trace);
  }
  DECANT_ASSIGN_OR_RETURN(std::vector<TraceRequest> trace,
                          ReadTrace(traces / point.trace.substr(0, mark)));
  trace.resize(std::min(trace.size(), static_cast<size_t>(point.requests)));
  const int64_t slots = int64_t{point.engine.num_pages} * point.engine.page_size;
  const std::vector<Token> alphabet = {0};
  DECANT_ASSIGN_OR_RETURN(const Traffic traffic,
                          TraceTraffic(trace, Narrow<int32_t>(slots), speedup, alphabet));
  return RequestsOf(traffic.workload, traffic.arrivals);
}

Expected<std::vector<SimulatedRequest>> PointRequests(const CampaignPoint& point,
                                                      const std::filesystem::path& traces) {
  if (!point.trace.empty()) return TraceRequests(point, traces);
  DECANT_ASSIGN_OR_RETURN(Workload workload, NamedWorkloadOf(point.workload, point.requests));
  if (point.closed()) return RequestsOf(workload, {});
  const Traffic traffic = PoissonTraffic(std::move(workload), point.arrival_seed, point.rate);
  return RequestsOf(traffic.workload, traffic.arrivals);
}

double MedianStep(std::span<const SimulatedStep> steps, bool loaded) {
  std::vector<double> seconds;
  for (const SimulatedStep& step : steps) {
    if ((step.work.prompt_tokens > 0) == loaded) seconds.push_back(step.duration);
  }
  return seconds.empty() ? 0 : Median(seconds);
}

}  // namespace

Expected<std::vector<CampaignPoint>> ReadCampaign(const std::filesystem::path& folder) {
  std::vector<CampaignPoint> points;
  for (const char* closed : {"closed", "seeds"}) {
    if (!std::filesystem::is_directory(folder / closed)) continue;
    std::vector<std::filesystem::path> engines;
    for (const auto& entry : std::filesystem::directory_iterator(folder / closed)) {
      if (entry.is_directory()) engines.push_back(entry.path());
    }
    std::ranges::sort(engines);
    for (const std::filesystem::path& engine : engines) {
      DECANT_RETURN_IF_ERROR(ReadFile(folder, engine / "runs.csv", true, points));
    }
  }
  for (const char* open : {"arrivals", "capped", "seeds", "trace"}) {
    DECANT_RETURN_IF_ERROR(ReadFile(folder, folder / open / "arrivals.csv", false, points));
  }
  if (!points.empty()) return points;
  return Error(StatusCode::kNotFound,
               "{} has no runs: looked for closed/*/runs.csv, seeds/*/runs.csv and arrivals.csv in "
               "arrivals, capped, seeds and trace",
               folder.string());
}

Expected<CampaignPrediction> Predict(const CampaignPoint& point, const StepTimeParameters& device,
                                     const std::filesystem::path& traces) {
  DECANT_ASSIGN_OR_RETURN(const StepTimeModel model,
                          StepTimeModel::Create(device, point.kernel, point.engine.page_size));
  SimulatedEngineConfig config = point.engine;
  config.keep_steps = true;
  if (config.num_pages == 0) {
    config.num_pages = Narrow<int32_t>(device.pool_slots / config.page_size);
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<SimulatedRequest> requests,
                          PointRequests(point, traces));
  DECANT_ASSIGN_OR_RETURN(const auto engine, Simulate(config, model, requests));
  const SimulatedEngine* const engines[] = {engine.get()};
  const SimulationSummary summary = Summarize(engines);
  return CampaignPrediction{.value = point.closed() ? summary.wall : summary.served_rate,
                            .queue = summary.queue_median,
                            .decode_step = MedianStep(engine->steps(), false),
                            .loaded_step = MedianStep(engine->steps(), true)};
}

}  // namespace decant
