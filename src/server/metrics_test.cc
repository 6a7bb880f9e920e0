#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "engine/completion.h"
#include "engine/test_engine.h"

namespace decant {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr const char* kModel = R"(a "model" with \ in it)";

/// A page in Prometheus's text format: series by name and labels, as written.
struct Exposition {
  std::map<std::string, double> series;
  std::map<std::string, std::string> types;  ///< Of families.

  explicit Exposition(const std::string& text) {
    EXPECT_TRUE(text.ends_with('\n'));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# HELP ")) continue;
      if (line.starts_with("# TYPE ")) {
        const size_t space = line.find(' ', 7);
        EXPECT_TRUE(types.emplace(line.substr(7, space - 7), line.substr(space + 1)).second)
            << line;
        continue;
      }
      const size_t space = line.rfind(' ');
      const std::string name = line.substr(0, space);
      EXPECT_TRUE(types.contains(Family(name))) << line;
      size_t parsed = 0;
      const std::string value = line.substr(space + 1);
      EXPECT_TRUE(series.emplace(name, std::stod(value, &parsed)).second) << line;
      EXPECT_EQ(parsed, value.size()) << line;
    }
  }

  /// The family of a series: what a histogram adds to its name goes.
  std::string Family(const std::string& name) const {
    std::string family = name.substr(0, name.find('{'));
    for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
      if (!family.ends_with(suffix)) continue;
      const std::string stem = family.substr(0, family.size() - suffix.size());
      const auto type = types.find(stem);
      if (type != types.end() && type->second == "histogram") return stem;
    }
    return family;
  }

  /// Of the first series with this name and this text among its labels; NaN where there is none.
  double operator()(const std::string& name, const std::string& labels = "") const {
    for (const auto& [key, value] : series) {
      const bool named = key == name || key.starts_with(name + "{");
      if (named && (labels.empty() || key.find(labels) != std::string::npos)) return value;
    }
    return std::nan("");
  }
};

class MetricsTest : public ::testing::Test {
 protected:
  Exposition Read() {
    const HttpResponse response = metrics_.MetricsPage();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
    return Exposition(response.body);
  }

  void Run(int32_t prompt_len, int32_t budget) {
    GenerateRequest request{.prompt = std::vector<Token>(prompt_len, 1), .max_new_tokens = budget};
    request.ignore_end_of_text = true;
    SubmitAndCollect(*engine_, std::move(request)).value().wait();
    engine_->Drain();
  }

  TestEngine engine_{{.num_pages = 24, .page_size = 4, .max_batch = 4, .chunk_tokens = 8}};
  ServerMetrics metrics_{{.model_name = kModel, .max_model_len = 500, .page_size = 4}, *engine_};
};

TEST_F(MetricsTest, TellsWhatItWasTold) {
  metrics_.OnFirstToken({.arrived = 5 * kSecond, .first_token = 5 * kSecond + kSecond / 2});
  metrics_.OnTokenGap(0.02);
  metrics_.OnTokenGap(0.03);
  const SampleTimes times{.arrived = 5 * kSecond,
                          .admitted = 6 * kSecond,
                          .first_token = 8 * kSecond,
                          .last_token = 12 * kSecond,
                          .ended = 13 * kSecond};
  metrics_.OnEnd(times, FinishReason::kBudget, 40, 5);
  metrics_.OnEnd(times, FinishReason::kEndOfText, 40, 1);
  metrics_.OnEnd(times, FinishReason::kStopString, 40, 5);
  metrics_.OnEnd(times, FinishReason::kCancelled, 40, 5);
  metrics_.OnEnd(times, FinishReason::kFailed, 40, 0);
  const Exposition page = Read();
  EXPECT_EQ(page("vllm:time_to_first_token_seconds_count"), 1);
  EXPECT_NEAR(page("vllm:time_to_first_token_seconds_sum"), 0.5, 1e-9);
  for (const std::string name :
       {"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"}) {
    EXPECT_EQ(page(name + "_count"), 2);
    EXPECT_NEAR(page(name + "_sum"), 0.05, 1e-9);
    EXPECT_EQ(page(name + "_bucket", "le=\"0.01\""), 0);
    EXPECT_EQ(page(name + "_bucket", "le=\"0.025\""), 1);
    EXPECT_EQ(page(name + "_bucket", "le=\"0.05\""), 2);
    EXPECT_EQ(page(name + "_bucket", "le=\"+Inf\""), 2);
  }
  const std::map<std::string, double> seconds = {{"vllm:e2e_request_latency_seconds", 8},
                                                 {"vllm:request_queue_time_seconds", 1},
                                                 {"vllm:request_prefill_time_seconds", 2},
                                                 {"vllm:request_decode_time_seconds", 4},
                                                 {"vllm:request_inference_time_seconds", 6}};
  for (const auto& [name, each] : seconds) {
    EXPECT_EQ(page(name + "_count"), 3) << name << ": those that were broken off do not count";
    EXPECT_NEAR(page(name + "_sum"), 3 * each, 1e-6) << name;
  }
  EXPECT_EQ(page("vllm:request_time_per_output_token_seconds_count"), 2) << "one token has no gap";
  EXPECT_NEAR(page("vllm:request_time_per_output_token_seconds_sum"), 2, 1e-6);
  EXPECT_EQ(page("vllm:request_prompt_tokens_bucket", "le=\"20\""), 0);
  EXPECT_EQ(page("vllm:request_prompt_tokens_bucket", "le=\"50\""), 3);
  EXPECT_EQ(page("vllm:request_generation_tokens_sum"), 11);
  EXPECT_EQ(page("vllm:request_success_total", "finished_reason=\"length\""), 1);
  EXPECT_EQ(page("vllm:request_success_total", "finished_reason=\"stop\""), 2);
  EXPECT_EQ(page("vllm:request_success_total", "finished_reason=\"abort\""), 1);
  EXPECT_EQ(page("vllm:request_success_total", "finished_reason=\"error\""), 1);
}

TEST_F(MetricsTest, LeavesOutTheQueueWhereTheAdmissionIsUnknown) {
  metrics_.OnEnd({.arrived = 1, .first_token = 2, .last_token = 3, .ended = 4},
                 FinishReason::kBudget, 1, 2);
  const Exposition page = Read();
  EXPECT_EQ(page("vllm:e2e_request_latency_seconds_count"), 1);
  EXPECT_EQ(page("vllm:request_queue_time_seconds_count"), 0);
  EXPECT_EQ(page("vllm:request_prefill_time_seconds_count"), 0);
}

TEST_F(MetricsTest, AgreesWithTheEngineHoweverOftenItIsRead) {
  Exposition page = Read();
  EXPECT_EQ(page("decant_steps_total", "kind=\"loaded\""), 0);
  EXPECT_EQ(page("vllm:kv_cache_usage_perc"), 0);
  EXPECT_EQ(page("decant_pages"), 24);
  EXPECT_EQ(page("vllm:cache_config_info", "num_gpu_blocks=\"24\""), 1);
  EXPECT_EQ(page("vllm:cache_config_info", "block_size=\"4\""), 1);
  Run(20, 10);
  Read();
  page = Read();
  const EngineStats stats = engine_->Stats();
  ASSERT_EQ(stats.loaded_steps, 3);
  ASSERT_EQ(stats.generated_tokens, 10);
  EXPECT_EQ(page("decant_steps_total", "kind=\"loaded\""), 3);
  EXPECT_EQ(page("decant_steps_total", "kind=\"pure_decode\""), stats.pure_decode_steps);
  EXPECT_EQ(page("decant_step_seconds_count", "kind=\"loaded\""), 3);
  EXPECT_EQ(page("decant_step_seconds_count", "kind=\"pure_decode\""), stats.pure_decode_steps);
  EXPECT_GT(page("decant_step_seconds_sum", "kind=\"loaded\""), 0);
  EXPECT_EQ(page("vllm:iteration_tokens_total_sum"), 20 + 9);
  EXPECT_EQ(page("vllm:prompt_tokens_total"), 20);
  EXPECT_EQ(page("vllm:generation_tokens_total"), 10);
  EXPECT_EQ(page("vllm:num_requests_running"), 0);
  EXPECT_GT(page("process_cpu_seconds_total"), 0);
  EXPECT_GT(page("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(page("process_start_time_seconds"), 1.7e9);
}

TEST_F(MetricsTest, EveryHistogramIsWhole) {
  metrics_.OnTokenGap(1e9);
  metrics_.OnEnd({.arrived = 1, .admitted = 1, .first_token = 2, .last_token = 3, .ended = 4},
                 FinishReason::kBudget, 450, 2);
  Run(20, 10);
  const Exposition page = Read();
  int histograms = 0;
  for (const auto& [family, type] : page.types) {
    if (type != "histogram") continue;
    ++histograms;
    std::map<std::string, std::map<double, double>> counts;  // by labels, then by bound
    for (const auto& [name, value] : page.series) {
      if (!name.starts_with(family + "_bucket{")) continue;
      const size_t bound = name.find("le=\"") + 4;
      counts[name.substr(0, bound)][std::stod(name.substr(bound))] = value;
    }
    ASSERT_FALSE(counts.empty()) << family;
    for (const auto& [labels, buckets] : counts) {
      double before = 0;
      for (const auto& [bound, count] : buckets) {
        EXPECT_GE(count, before) << labels << bound;
        before = count;
      }
      EXPECT_TRUE(std::isinf(buckets.rbegin()->first)) << labels;
      EXPECT_GE(buckets.size(), 6) << labels;
    }
  }
  EXPECT_EQ(histograms, 13);
}

TEST_F(MetricsTest, NamesTheModelInEverySeries) {
  const Exposition page = Read();
  EXPECT_GT(page.series.size(), 200);
  for (const auto& [name, value] : page.series) {
    if (name.starts_with("process_")) continue;
    EXPECT_NE(name.find(R"(model_name="a \"model\" with \\ in it")"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace decant
