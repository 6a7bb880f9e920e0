#include "bench/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/output_file.h"

namespace decant {
namespace {

constexpr double kNano = 1e-9;
constexpr int kHostTrack = 1;
constexpr int kDeviceTrack = 2;

int64_t Nanos(double seconds) { return std::llround(seconds / kNano); }

/// Nanoseconds of SteadyNanos.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};

/// When the device worked on each step.
std::vector<Span> DeviceSpans(std::span<const TracedStep> steps) {
  std::vector<Span> spans(steps.size());
  int64_t next_begin = std::numeric_limits<int64_t>::max();
  for (size_t i = steps.size(); i-- > 0;) {
    const int64_t end = std::min(steps[i].record.end, next_begin);
    next_begin = end - Nanos(steps[i].record.device);
    spans[i] = {.begin = next_begin, .end = end};
  }
  return spans;
}

/// The intervals of a step one after another from the begin of `step`, none past its end.
std::vector<Span> PartSpans(const StepTimes& times, Span step) {
  std::vector<Span> spans;
  spans.reserve(times.intervals.size());
  double seconds = 0;
  int64_t begin = step.begin;
  for (const PartInterval& interval : times.intervals) {
    seconds += interval.seconds;
    const int64_t end = std::min(step.end, step.begin + Nanos(seconds));
    spans.push_back({.begin = begin, .end = end});
    begin = end;
  }
  return spans;
}

/// Writes the file's events; a line each.
class EventWriter {
 public:
  EventWriter(OutputFile& file, int64_t origin) : file_(file), origin_(origin) {}

  Status Name(std::string_view what, int track, const std::string& name) {
    JsonObject event;
    event.Add("name", what).Add("ph", "M").Add("pid", 1).Add("tid", track);
    return Write(event.Add("args", JsonObject().Add("name", name)));
  }

  Status Add(int track, std::string_view name, Span span, const JsonObject& args) {
    constexpr double kNanosPerMicro = 1e3;
    return Write(JsonObject()
                     .Add("name", name)
                     .Add("ph", "X")
                     .Add("pid", 1)
                     .Add("tid", track)
                     .Add("ts", static_cast<double>(span.begin - origin_) / kNanosPerMicro)
                     .Add("dur", static_cast<double>(span.end - span.begin) / kNanosPerMicro)
                     .Add("args", args));
  }

 private:
  /// The first event begins the array's first line, every other follows a comma.
  Status Write(const JsonObject& event) {
    return file_.WriteLine(
        fmt::format("{}{}", std::exchange(first_, false) ? "" : ",", event.ToString()));
  }

  OutputFile& file_;
  const int64_t origin_;
  bool first_ = true;
};

Status AddHostSpans(const StepRecord& record, EventWriter& events) {
  const JsonObject args = JsonObject().Add("step", record.step);
  const auto add = [&](std::string_view name, int64_t begin, double seconds) {
    return events.Add(kHostTrack, name, {.begin = begin, .end = begin + Nanos(seconds)}, args);
  };
  DECANT_RETURN_IF_ERROR(add("plan", record.begin, record.plan));
  DECANT_RETURN_IF_ERROR(add("launch", record.begin + Nanos(record.plan), record.launch));
  DECANT_RETURN_IF_ERROR(add("wait", record.end - Nanos(record.wait), record.wait));
  return add("deliver", record.end, record.deliver);
}

/// A span before those that it holds.
Status AddDeviceSpans(const TracedStep& step, Span span, const MachineRates& rates,
                      EventWriter& events) {
  const StepRecord& record = step.record;
  constexpr double kMilli = 1e3;
  DECANT_RETURN_IF_ERROR(events.Add(
      kDeviceTrack, record.pure_decode() ? "pure decode step" : "loaded step", span,
      JsonObject()
          .Add("step", record.step)
          .Add("rows", record.rows)
          .Add("prompt_tokens", record.prompt_tokens)
          .Add("decode_tokens", record.decode_tokens)
          .Add("cached_tokens", record.cached_tokens)
          .Add("floor_ms", rates.FloorSeconds(record.bytes, record.operations) * kMilli)));
  const std::vector<PartInterval>& parts = step.times.intervals;
  const std::vector<Span> spans = PartSpans(step.times, span);
  int layer = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].part == StepPart::kQkv) {
      size_t last = i;
      while (last + 1 < parts.size() && parts[last].part != StepPart::kDown) ++last;
      DECANT_RETURN_IF_ERROR(events.Add(kDeviceTrack, fmt::format("layer {}", layer++),
                                        {.begin = spans[i].begin, .end = spans[last].end},
                                        JsonObject()));
    }
    DECANT_RETURN_IF_ERROR(
        events.Add(kDeviceTrack, StepPartName(parts[i].part), spans[i], JsonObject()));
  }
  return Status();
}

}  // namespace

Status WriteChromeTrace(const std::filesystem::path& path, std::span<const TracedStep> steps,
                        const MachineRates& rates, const std::string& device,
                        const RunHeader& header) {
  DECANT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path, OutputMode::kReplace));
  DECANT_RETURN_IF_ERROR(
      file.WriteLine(fmt::format(R"({{"displayTimeUnit": "ms", "otherData": {}, "traceEvents": [)",
                                 HeaderFields(header).ToString())));
  EventWriter events(file, steps.empty() ? 0 : steps.front().record.begin);
  DECANT_RETURN_IF_ERROR(events.Name("process_name", kHostTrack, "decant"));
  DECANT_RETURN_IF_ERROR(events.Name("thread_name", kHostTrack, "host loop"));
  DECANT_RETURN_IF_ERROR(events.Name("thread_name", kDeviceTrack, "device " + device));
  const std::vector<Span> spans = DeviceSpans(steps);
  for (size_t i = 0; i < steps.size(); ++i) {
    DECANT_RETURN_IF_ERROR(AddHostSpans(steps[i].record, events));
    DECANT_RETURN_IF_ERROR(AddDeviceSpans(steps[i], spans[i], rates, events));
  }
  DECANT_RETURN_IF_ERROR(file.WriteLine("]}"));
  return file.Close();
}

}  // namespace decant
