#include "server/metrics.h"

#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string_view>
#include <utility>
#include <vector>

namespace decant {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// As vLLM has them, so that its dashboards' quantiles work.
const Buckets kFirstTokenBuckets = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                    0.25,  0.5,   0.75, 1,    2.5,  5,    7.5,  10,
                                    20,    40,    80,   160,  640,  2560};
const Buckets kTokenGapBuckets = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                  0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequestBuckets = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
const Buckets kStepTokenBuckets = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
/// Ours: steps of a small model on a GPU take a millisecond, of a large one on a CPU seconds.
const Buckets kStepBuckets = {0.0005, 0.001, 0.002, 0.003, 0.004, 0.006, 0.008, 0.01,
                              0.015,  0.02,  0.03,  0.04,  0.06,  0.08,  0.1,   0.15,
                              0.2,    0.3,   0.5,   0.75,  1,     2,     5,     10};

/// Records taken at once from the engine, whose loop waits while they are copied.
constexpr size_t kStepsAtOnce = 4096;

/// Names that vLLM gave up for others and dashboards still ask for: {old, new}.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kOldNames = {
    {{"vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc"},
     {"vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds"}}};

/// 1, 2, 5, 10, 20, ... up to `most`.
Buckets TokenBuckets(int32_t most) {
  Buckets buckets;
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t mantissa : {1, 2, 5}) {
      if (mantissa * power > most) return buckets;
      buckets.push_back(static_cast<double>(mantissa * power));
    }
  }
}

/// vLLM's word.
const char* FinishLabel(FinishReason reason) {
  switch (reason) {
    case FinishReason::kBudget:
      return "length";
    case FinishReason::kEndOfText:
    case FinishReason::kStopString:
      return "stop";
    case FinishReason::kCancelled:
      return "abort";
    case FinishReason::kFailed:
      break;
  }
  return "error";
}

double Seconds(int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-9; }

double UnixSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// 0 where /proc does not tell.
double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double total_pages = 0;
  double resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// Counters only go up by differences.
void RaiseTo(prometheus::Counter& counter, double value) {
  counter.Increment(std::max(value - counter.Value(), 0.0));
}

void AddOldNames(std::vector<prometheus::MetricFamily>& families) {
  for (const auto& [old_name, name] : kOldNames) {
    const auto found = std::ranges::find(families, name, &prometheus::MetricFamily::name);
    prometheus::MetricFamily copy = *found;
    copy.name = old_name;
    copy.help = "The older name of " + std::string(name) + ".";
    families.push_back(std::move(copy));
  }
}

}  // namespace

ServerMetrics::ServerMetrics(MetricsOptions options, const Engine& engine)
    : engine_(engine),
      labels_{{"model_name", options.model_name}},
      running_(AddGauge("vllm:num_requests_running", "Requests that hold a row.")),
      waiting_(AddGauge("vllm:num_requests_waiting", "Requests that wait for a row and pages.")),
      cache_usage_(AddGauge("vllm:kv_cache_usage_perc", "Part of the KV cache in use; 1: all.")),
      pages_in_use_(AddGauge("decant_pages_in_use", "Pages of the KV cache in use.")),
      chunk_tokens_(AddGauge("decant_chunk_tokens",
                             "Prompt tokens of the last step that left some for later.")),
      resident_bytes_(AddProcessGauge("process_resident_memory_bytes", "Memory in RAM.")),
      cpu_seconds_(
          AddProcessCounter("process_cpu_seconds_total", "User and system time of all threads.")),
      prompt_tokens_(AddCounter("vllm:prompt_tokens_total", "Prompt tokens computed.")),
      generated_tokens_(AddCounter("vllm:generation_tokens_total", "Tokens generated.")),
      first_token_(AddHistogram("vllm:time_to_first_token_seconds",
                                "From a request's arrival to its first token.",
                                kFirstTokenBuckets)),
      token_gap_(AddHistogram("vllm:inter_token_latency_seconds",
                              "Between a token of a request and the one before it.",
                              kTokenGapBuckets)),
      token_mean_(AddHistogram("vllm:request_time_per_output_token_seconds",
                               "A request's mean time between tokens.", kTokenGapBuckets)),
      end_to_end_(AddHistogram("vllm:e2e_request_latency_seconds",
                               "From a request's arrival to its end.", kRequestBuckets)),
      queue_(AddHistogram("vllm:request_queue_time_seconds",
                          "From a request's arrival to its admission.", kRequestBuckets)),
      inference_(AddHistogram("vllm:request_inference_time_seconds",
                              "From a request's admission to its last token.", kRequestBuckets)),
      prefill_(AddHistogram("vllm:request_prefill_time_seconds",
                            "From a request's admission to its first token.", kRequestBuckets)),
      decode_(AddHistogram("vllm:request_decode_time_seconds",
                           "From a request's first token to its last.", kRequestBuckets)),
      request_prompt_(AddHistogram("vllm:request_prompt_tokens", "Prompt tokens of a request.",
                                   TokenBuckets(options.max_model_len))),
      request_generated_(AddHistogram("vllm:request_generation_tokens",
                                      "Tokens generated by a request.",
                                      TokenBuckets(options.max_model_len))),
      step_tokens_(AddHistogram("vllm:iteration_tokens_total",
                                "Prompt and decode tokens computed in a step.",
                                kStepTokenBuckets)) {
  AddFinished();
  AddSteps();
  AddConfig(options, engine);
}

prometheus::Gauge& ServerMetrics::AddGauge(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add(labels_);
}

prometheus::Counter& ServerMetrics::AddCounter(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add(labels_);
}

prometheus::Gauge& ServerMetrics::AddProcessGauge(const char* name, const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry_).Add({});
}

prometheus::Counter& ServerMetrics::AddProcessCounter(const char* name, const char* help) {
  return prometheus::BuildCounter().Name(name).Help(help).Register(registry_).Add({});
}

prometheus::Histogram& ServerMetrics::AddHistogram(const char* name, const char* help,
                                                   const Buckets& buckets) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry_).Add(labels_,
                                                                                    buckets);
}

void ServerMetrics::AddFinished() {
  auto& family = prometheus::BuildCounter()
                     .Name("vllm:request_success_total")
                     .Help("Requests that ended, by reason; abort and error are no success.")
                     .Register(registry_);
  for (int i = 0; i < kFinishReasons; ++i) {
    prometheus::Labels labels = labels_;
    labels["finished_reason"] = FinishLabel(static_cast<FinishReason>(i));
    finished_[i] = &family.Add(labels);
  }
}

void ServerMetrics::AddSteps() {
  auto& counts =
      prometheus::BuildCounter().Name("decant_steps_total").Help("Steps.").Register(registry_);
  auto& seconds = prometheus::BuildHistogram()
                      .Name("decant_step_seconds")
                      .Help("From a step's launch, or the end of the one before, to its end.")
                      .Register(registry_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    prometheus::Labels labels = labels_;
    labels["kind"] = i == 0 ? "pure_decode" : "loaded";
    steps_[i] = &counts.Add(labels);
    step_seconds_[i] = &seconds.Add(labels, kStepBuckets);
  }
}

/// What does not change.
void ServerMetrics::AddConfig(const MetricsOptions& options, const Engine& engine) {
  const int32_t num_pages = engine.Stats().num_pages;
  AddGauge("decant_pages", "Pages of the KV cache.").Set(num_pages);
  AddProcessGauge("process_start_time_seconds", "Since 1970.").Set(UnixSeconds());
  AddCounter("vllm:num_preemptions_total", "Always 0: what has started is never put back.");
  prometheus::Labels labels = labels_;
  labels["block_size"] = std::to_string(options.page_size);
  labels["num_gpu_blocks"] = std::to_string(num_pages);
  prometheus::BuildGauge()
      .Name("vllm:cache_config_info")
      .Help("The KV cache: slots of a page, pages.")
      .Register(registry_)
      .Add(labels)
      .Set(1);
}

void ServerMetrics::OnFirstToken(const SampleTimes& times) {
  first_token_.Observe(Seconds(times.arrived, times.first_token));
}

void ServerMetrics::OnTokenGap(double seconds) { token_gap_.Observe(seconds); }

void ServerMetrics::OnEnd(const SampleTimes& times, FinishReason reason, int32_t prompt_tokens,
                          int32_t generated_tokens) {
  finished_[static_cast<size_t>(reason)]->Increment();
  // What was broken off says nothing of how long requests take.
  if (reason == FinishReason::kCancelled || reason == FinishReason::kFailed) return;
  const double decode = Seconds(times.first_token, times.last_token);
  end_to_end_.Observe(Seconds(times.arrived, times.ended));
  decode_.Observe(decode);
  if (generated_tokens > 1) token_mean_.Observe(decode / (generated_tokens - 1));
  request_prompt_.Observe(prompt_tokens);
  request_generated_.Observe(generated_tokens);
  if (times.admitted == 0) return;
  queue_.Observe(Seconds(times.arrived, times.admitted));
  prefill_.Observe(Seconds(times.admitted, times.first_token));
  inference_.Observe(Seconds(times.admitted, times.last_token));
}

HttpResponse ServerMetrics::MetricsPage() {
  const std::lock_guard lock(page_);
  ReadEngine();
  ReadSteps();
  ReadProcess();
  std::vector<prometheus::MetricFamily> families = registry_.Collect();
  AddOldNames(families);
  HttpResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = prometheus::TextSerializer().Serialize(families);
  return response;
}

void ServerMetrics::ReadEngine() {
  const EngineStats stats = engine_.Stats();
  running_.Set(stats.running);
  waiting_.Set(stats.waiting);
  pages_in_use_.Set(stats.pages_in_use);
  chunk_tokens_.Set(stats.chunk_tokens);
  cache_usage_.Set(static_cast<double>(stats.pages_in_use) / std::max(stats.num_pages, 1));
  RaiseTo(prompt_tokens_, static_cast<double>(stats.prompt_tokens));
  RaiseTo(generated_tokens_, static_cast<double>(stats.generated_tokens));
  RaiseTo(*steps_[0], static_cast<double>(stats.pure_decode_steps));
  RaiseTo(*steps_[1], static_cast<double>(stats.loaded_steps));
}

void ServerMetrics::ReadSteps() {
  for (size_t taken = kStepsAtOnce; taken == kStepsAtOnce;) {
    const std::vector<StepRecord> records = engine_.StepsSince(next_step_, kStepsAtOnce);
    for (const StepRecord& record : records) {
      step_seconds_[record.pure_decode() ? 0 : 1]->Observe(record.duration);
      step_tokens_.Observe(record.prompt_tokens + record.decode_tokens);
    }
    if (!records.empty()) next_step_ = records.back().step + 1;
    taken = records.size();
  }
}

void ServerMetrics::ReadProcess() {
  RaiseTo(cpu_seconds_, CpuSeconds());
  resident_bytes_.Set(ResidentBytes());
}

}  // namespace decant
