// Steps timed part by part, on a tiny model: the parts are the right ones and add up, timing
// changes nothing, the trace is one that viewers open.

#include "bench/step_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/testing/temporary_folder.h"
#include "bench/chrome_trace.h"
#include "engine/load_engine.h"
#include "model/testing/tiny_model.h"

namespace decant {
namespace {

constexpr MachineRates kRates = {.bytes_per_second = 1e9, .operations_per_second = 1e10};

/// Runs prompt and decode attention one after the other, as a GPU does, and marks between them.
class ApartOps : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  bool MarkAttention(OpsClock* clock) override {
    clock_ = clock;
    return clock != nullptr;
  }
  void Attention(int32_t layer, TensorView queries, TensorView attended) override {
    if (clock_ != nullptr) clock_->Mark();
    ForwardingOps::Attention(layer, queries, attended);
  }

 private:
  OpsClock* clock_ = nullptr;
};

class StepTraceTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::BuildTinyModel({}).WriteTo(path_); }

  /// An engine of four rows over the tiny model of two layers; `apart`: behind ApartOps.
  void Load(bool apart) {
    EngineOptions options;
    options.model = path_;
    options.threads = 1;
    options.pool_gib = 0.25;
    options.max_batch = 4;
    options.chunk_tokens = 64;
    options.wrap_ops = [this, apart](std::unique_ptr<Ops> ops, const DecoderShape&) {
      if (apart) ops = std::make_unique<ApartOps>(std::move(ops));
      auto timed = std::make_unique<TimedOps>(std::move(ops));
      timed_ = timed.get();
      return timed;
    };
    served_ = LoadEngine(options, nullptr).value();
  }

  TracedRun RunAll() {
    return RunTraced(served_->engine(), *timed_, workload_, [] {}).value();
  }

  const Workload workload_ =
      MakeWorkload("mixed", {.prompt_lengths = {5, 40, 150}, .min_budget = 4, .max_budget = 12}, 12,
                   std::vector<Token>{1, 2, 3, 4, 5});
  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "tiny.gguf";
  std::unique_ptr<ServedModel> served_;
  TimedOps* timed_ = nullptr;
};

std::vector<StepPart> Sequence(const TracedStep& step) {
  std::vector<StepPart> parts;
  parts.reserve(step.times.intervals.size());
  for (const PartInterval& interval : step.times.intervals) parts.push_back(interval.part);
  return parts;
}

std::vector<StepPart> RightSequence(const std::vector<StepPart>& attention) {
  std::vector<StepPart> parts = {StepPart::kUpload, StepPart::kEmbed};
  for (int layer = 0; layer < 2; ++layer) {
    parts.push_back(StepPart::kQkv);
    parts.insert(parts.end(), attention.begin(), attention.end());
    parts.insert(parts.end(), {StepPart::kOutput, StepPart::kGateUp, StepPart::kDown});
  }
  parts.insert(parts.end(), {StepPart::kHead, StepPart::kSample});
  return parts;
}

TEST_F(StepTraceTest, TellsThePartsApart) {
  for (const bool apart : {false, true}) {
    Load(apart);
    const std::vector<StepPart> both =
        apart ? std::vector{StepPart::kPromptAttention, StepPart::kDecodeAttention}
              : std::vector{StepPart::kAttention};
    std::map<std::string, int> kinds;
    for (const TracedStep& step : RunAll().steps) {
      if (step.record.pure_decode()) {
        ++kinds["pure decode"];
        EXPECT_EQ(Sequence(step), RightSequence({StepPart::kDecodeAttention}));
        EXPECT_EQ(step.times.decode_share, 1);
      } else if (step.record.decode_tokens == 0) {
        ++kinds["prompts"];
        EXPECT_EQ(Sequence(step), RightSequence({StepPart::kPromptAttention}));
        EXPECT_EQ(step.times.decode_share, 0);
      } else {
        ++kinds["both"];
        EXPECT_EQ(Sequence(step), RightSequence(both));
        EXPECT_GT(step.times.decode_share, 0);
        EXPECT_LT(step.times.decode_share, 1);
      }
    }
    EXPECT_EQ(kinds.size(), 3) << "the workload has steps of each kind";
  }
}

TEST_F(StepTraceTest, PartsAddUpToTheStep) {
  Load(false);
  // A machine that does something else between the parts makes the share smaller: the best of a few
  // runs counts, of two at least.
  double best = 0;
  for (int run = 0; run < 2 || (run < 20 && best < 0.5); ++run) {
    double parts = 0;
    double device = 0;
    int32_t prompt_tokens = 0;
    for (const TracedStep& step : RunAll().steps) {
      EXPECT_LE(step.times.total(), step.record.device + 1e-9);
      for (const double seconds : step.times.Parts()) EXPECT_GE(seconds, 0);
      parts += step.times.total();
      device += step.record.device;
      prompt_tokens += step.record.prompt_tokens;
    }
    EXPECT_EQ(prompt_tokens, workload_.prompt_tokens());
    best = std::max(best, parts / device);
  }
  EXPECT_GE(best, 0.5);
}

TEST_F(StepTraceTest, TimingChangesNoToken) {
  Load(false);
  const ClosedRun before = RunClosed(served_->engine(), workload_, [] {}).value();
  const TracedRun timed = RunAll();
  const ClosedRun after = RunClosed(served_->engine(), workload_, [] {}).value();
  EXPECT_TRUE(timed_->Stop().empty()) << "no step after the timed run is timed";
  for (size_t i = 0; i < workload_.items.size(); ++i) {
    EXPECT_EQ(std::ssize(before.requests[i].tokens), workload_.items[i].budget);
    EXPECT_EQ(timed.requests[i].tokens, before.requests[i].tokens);
    EXPECT_EQ(after.requests[i].tokens, before.requests[i].tokens);
  }
}

/// Whether spans that share time lie one in the other, sorted so that the outer comes first.
void ExpectNested(const std::vector<nlohmann::json>& events) {
  constexpr double kRounding = 1e-6;  // microseconds
  std::vector<double> open;           // ends
  double last = 0;
  for (const nlohmann::json& event : events) {
    const double begin = event["ts"];
    const double end = begin + event["dur"].get<double>();
    ASSERT_GE(event["dur"].get<double>(), 0);
    ASSERT_GE(begin, last - kRounding) << event.dump();
    last = begin;
    while (!open.empty() && open.back() <= begin + kRounding) open.pop_back();
    if (!open.empty()) {
      ASSERT_LE(end, open.back() + kRounding) << event.dump();
    }
    open.push_back(end);
  }
}

TEST_F(StepTraceTest, TheTraceParsesAndNests) {
  Load(true);
  const TracedRun run = RunAll();
  const std::string path = path_ + ".json";
  RunHeader header;
  header.commit = "c\"\\\n";
  header.command = {"decant", "\xff\"quoted\""};
  ASSERT_TRUE(WriteChromeTrace(path, run.steps, kRates, "a \"GPU\"\n", header).ok());
  std::ifstream file(path);
  const nlohmann::json trace = nlohmann::json::parse(file);

  EXPECT_EQ(trace["otherData"]["commit"], "c\"\\\n");
  std::map<int, std::vector<nlohmann::json>> tracks;
  std::map<std::string, size_t> names;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X");
    tracks[event["tid"]].push_back(event);
    ++names[event["name"]];
  }
  ASSERT_EQ(tracks.size(), 2);
  std::ranges::sort(tracks[1], {},
                    [](const auto& event) { return event["ts"].template get<double>(); });
  ExpectNested(tracks[1]);
  ExpectNested(tracks[2]);
  const size_t steps = run.steps.size();
  for (const char* name : {"plan", "launch", "wait", "deliver", "layer 0", "layer 1", "head"}) {
    EXPECT_EQ(names[name], steps) << name;
  }
  EXPECT_EQ(names["pure decode step"] + names["loaded step"], steps);
  EXPECT_EQ(names["o"], 2 * steps);
  EXPECT_EQ(tracks[2].front()["args"]["prompt_tokens"], run.steps.front().record.prompt_tokens);
  EXPECT_GT(tracks[2].front()["args"]["floor_ms"].get<double>(), 0);
}

TEST(ChromeTraceTest, NoStepOverlapsTheNextWhenTheHostCameLate) {
  // The second result was there long before the host looked.
  std::vector<TracedStep> steps(2);
  steps[0].record = {.begin = 1000, .end = 900'000, .device = 400e-6};
  steps[1].record = {.begin = 2000, .end = 1'000'000, .device = 500e-6};
  for (TracedStep& step : steps) {
    step.times.intervals = {{StepPart::kUpload, 100e-6}, {StepPart::kHead, 900e-6}};
  }
  const TemporaryFolder temporary;
  const std::string path = temporary / "trace.json";
  ASSERT_TRUE(WriteChromeTrace(path, steps, kRates, "cpu", {}).ok());
  std::ifstream file(path);
  std::vector<nlohmann::json> device;
  const nlohmann::json trace = nlohmann::json::parse(file);
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["tid"] == 2) device.push_back(event);
  }
  ASSERT_EQ(device.size(), 6);
  ExpectNested(device);
  EXPECT_DOUBLE_EQ(device[0]["ts"], 99);
  EXPECT_DOUBLE_EQ(device[3]["ts"], 499);
  EXPECT_DOUBLE_EQ(device[5]["dur"], 400) << "a part ends with its step at the latest";
}

TracedStep Step(int32_t prompt_tokens, double duration, double qkv, double both = 0) {
  TracedStep step;
  step.record = {.prompt_tokens = prompt_tokens,
                 .decode_tokens = 2,
                 .wait = duration / 2,
                 .duration = duration,
                 .device = duration,
                 .bytes = 1e6};
  step.times.intervals = {{StepPart::kQkv, qkv / 2}, {StepPart::kQkv, qkv / 2}};
  if (both > 0) {
    step.times.intervals.push_back({StepPart::kAttention, both});
    step.times.decode_share = 0.25;
  }
  return step;
}

TEST(SummarizeTraceTest, MediansByKind) {
  const std::vector<TracedStep> steps = {Step(0, 2e-3, 1e-3), Step(8, 8e-3, 4e-3, 2e-3),
                                         Step(0, 4e-3, 3e-3), Step(0, 4e-3, 2e-3)};
  const TraceSummary summary = SummarizeTrace(steps, kRates);
  ASSERT_TRUE(summary.pure_decode);
  EXPECT_EQ(summary.pure_decode->steps, 3);
  EXPECT_DOUBLE_EQ(summary.pure_decode->parts[static_cast<size_t>(StepPart::kQkv)], 2e-3);
  EXPECT_DOUBLE_EQ(summary.pure_decode->shares[static_cast<size_t>(StepPart::kQkv)], 0.6);
  EXPECT_DOUBLE_EQ(summary.pure_decode->duration, 4e-3);
  EXPECT_DOUBLE_EQ(summary.pure_decode->floor, 1e-3);
  EXPECT_DOUBLE_EQ(summary.pure_decode->times_floor, 4);
  EXPECT_DOUBLE_EQ(summary.pure_decode->wait, 2e-3);
  EXPECT_EQ(summary.pure_decode->decode_share, 0);
  ASSERT_TRUE(summary.loaded);
  EXPECT_EQ(summary.loaded->steps, 1);
  EXPECT_DOUBLE_EQ(summary.loaded->parts_sum, 6e-3);
  EXPECT_DOUBLE_EQ(summary.loaded->shares[static_cast<size_t>(StepPart::kAttention)], 0.25);
  EXPECT_DOUBLE_EQ(summary.loaded->decode_share, 0.25);
  EXPECT_FALSE(SummarizeTrace(std::span(steps).first(1), kRates).loaded);

  const std::string table = PartTable(summary);
  EXPECT_NE(table.find("\nqkv                     2.000  60.0%      4.000  50.0%\n"),
            std::string::npos)
      << table;
  EXPECT_NE(table.find("\nattention                   -      -      2.000  25.0%\n"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("download"), std::string::npos) << "no step has that part";
}

TEST(SummarizeGapsTest, PoolsAllRequests) {
  const std::vector<RequestTimes> requests = {{.gaps = {1, 2}}, {.gaps = {}}, {.gaps = {3, 4, 10}}};
  const GapSummary summary = SummarizeGaps(requests);
  EXPECT_EQ(summary.gaps, 5);
  EXPECT_DOUBLE_EQ(summary.median, 3);
  EXPECT_DOUBLE_EQ(summary.p99, 9.76);
  EXPECT_DOUBLE_EQ(summary.max, 10);
  EXPECT_EQ(SummarizeGaps({}).gaps, 0);
}

}  // namespace
}  // namespace decant
