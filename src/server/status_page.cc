#include "server/status_page.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "base/json.h"

namespace decant {
namespace {

/// Steps that a page tells of.
constexpr size_t kRecentSteps = 240;

/// Milliseconds to a tenth of a microsecond.
double Milliseconds(double seconds) { return std::round(seconds * 1e7) * 1e-4; }

double FloorSeconds(const StepRecord& step, const FloorRates& rates) {
  return std::max(step.bytes / rates.bytes_per_second,
                  step.operations / rates.operations_per_second);
}

/// The value below which a part `q` of `values`, which are not empty, lies.
double Quantile(std::vector<double>& values, double q) {
  const auto last = static_cast<double>(values.size() - 1);
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(std::lround(q * last));
  std::ranges::nth_element(values, place);
  return *place;
}

/// The steps of a kind; "null" where there are none.
std::string KindJson(std::span<const StepRecord> steps, bool pure_decode,
                     const std::optional<FloorRates>& rates) {
  std::vector<double> durations;
  std::vector<double> floors;
  std::vector<double> ratios;
  double seconds = 0;
  double bytes = 0;
  double operations = 0;
  for (const StepRecord& step : steps) {
    if (step.pure_decode() != pure_decode) continue;
    durations.push_back(step.duration);
    if (rates) {
      floors.push_back(FloorSeconds(step, *rates));
      ratios.push_back(step.duration / floors.back());
    }
    seconds += step.duration;
    bytes += step.bytes;
    operations += step.operations;
  }
  if (durations.empty()) return "null";
  JsonObject json;
  json.Add("steps", durations.size())
      .Add("median_ms", Milliseconds(Quantile(durations, 0.5)))
      .Add("p99_ms", Milliseconds(Quantile(durations, 0.99)))
      .Add("bytes_per_s", std::round(bytes / seconds))
      .Add("operations_per_s", std::round(operations / seconds));
  if (rates) {
    json.Add("floor_ms", Milliseconds(Quantile(floors, 0.5)))
        .Add("times_floor", Quantile(ratios, 0.5));
  }
  return json.ToString();
}

JsonObject StepsJson(const EngineStats& stats, std::span<const StepRecord> recent,
                     const std::optional<FloorRates>& rates) {
  JsonArray durations;
  JsonArray loaded;
  JsonArray floors;
  for (const StepRecord& step : recent) {
    durations.Add(Milliseconds(step.duration));
    loaded.Add(!step.pure_decode());
    if (rates) floors.Add(Milliseconds(FloorSeconds(step, *rates)));
  }
  JsonObject series;
  series.Add("ms", durations).Add("loaded", loaded);
  if (rates) series.Add("floor_ms", floors);
  return JsonObject()
      .Add("pure_decode_total", stats.pure_decode_steps)
      .Add("loaded_total", stats.loaded_steps)
      .AddJson("pure_decode", KindJson(recent, true, rates))
      .AddJson("loaded", KindJson(recent, false, rates))
      .Add("recent", series);
}

JsonArray RowsJson(std::span<const RowProgress> rows) {
  JsonArray json;
  for (const RowProgress& row : rows) {
    json.Add(JsonObject()
                 .Add("row", row.row)
                 .Add("request", row.request)
                 .Add("sample", row.sample)
                 .Add("prompt_tokens", row.prompt_tokens)
                 .Add("prompt_done", row.prompt_done)
                 .Add("generated_tokens", row.generated_tokens)
                 .Add("budget", row.budget));
  }
  return json;
}

JsonObject RequestsJson(const EngineStats& stats) {
  JsonObject finished;
  for (int i = 0; i < kFinishReasons; ++i) {
    const auto reason = static_cast<FinishReason>(i);
    finished.Add(FinishReasonName(reason), stats.count(reason));
  }
  return JsonObject()
      .Add("running", stats.running)
      .Add("waiting", stats.waiting)
      .Add("accepted", stats.accepted)
      .Add("finished", finished);
}

}  // namespace

HttpResponse StatusPage::Page() const {
  const EngineStats stats = engine_.Stats();
  const uint64_t first = stats.steps() - std::min<uint64_t>(stats.steps(), kRecentSteps);
  const std::vector<StepRecord> recent = engine_.StepsSince(first, kRecentSteps);
  const Status health = engine_.Health();
  JsonObject json;
  json.Add("model", options_.model_name)
      .Add("max_model_len", options_.max_model_len)
      .Add("health", health.ok() ? "ok" : health.message())
      .Add("uptime_s", uptime_.Seconds())
      .Add("requests", RequestsJson(stats))
      .Add("max_batch", options_.max_batch)
      .Add("rows", RowsJson(engine_.Rows()))
      .Add("pages", JsonObject()
                        .Add("in_use", stats.pages_in_use)
                        .Add("total", stats.num_pages)
                        .Add("page_size", options_.page_size))
      .Add("tokens",
           JsonObject().Add("prompt", stats.prompt_tokens).Add("generated", stats.generated_tokens))
      .Add("chunk_tokens", stats.chunk_tokens)
      .Add("steps", StepsJson(stats, recent, options_.rates));
  return {.headers = {{"Cache-Control", "no-store"}}, .body = json.ToString()};
}

}  // namespace decant
