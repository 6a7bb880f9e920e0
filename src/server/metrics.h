#pragma once

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

#include "engine/engine.h"
#include "server/http_exchange.h"
#include "server/request_observer.h"

namespace decant {

/// What the metrics say of the model that is served.
struct MetricsOptions {
  std::string model_name{};   ///< The label model_name.
  int32_t max_model_len = 0;  ///< Bounds the buckets of token counts.
  int32_t page_size = 0;      ///< Slots.
};

/// Counts what the server's requests go through and serves it to Prometheus, under vLLM's names
/// where vLLM has the same; docs/metrics.md lists them. What the engine counts is read when the
/// page is asked for. Thread-safe: an observation takes the lock of one histogram.
class ServerMetrics : public RequestObserver {
 public:
  /// `engine` must live when MetricsPage is called.
  ServerMetrics(MetricsOptions options, const Engine& engine);

  void OnFirstToken(const SampleTimes& times) override;
  void OnTokenGap(double seconds) override;
  void OnEnd(const SampleTimes& times, FinishReason reason, int32_t prompt_tokens,
             int32_t generated_tokens) override;

  /// All of them in Prometheus's text format 0.0.4.
  HttpResponse MetricsPage();

 private:
  using Buckets = prometheus::Histogram::BucketBoundaries;

  prometheus::Gauge& AddGauge(const char* name, const char* help);
  prometheus::Counter& AddCounter(const char* name, const char* help);
  prometheus::Gauge& AddProcessGauge(const char* name, const char* help);
  prometheus::Counter& AddProcessCounter(const char* name, const char* help);
  prometheus::Histogram& AddHistogram(const char* name, const char* help, const Buckets& buckets);
  void AddFinished();
  void AddSteps();
  void AddConfig(const MetricsOptions& options, const Engine& engine);
  void ReadEngine();
  void ReadSteps();
  void ReadProcess();

  const Engine& engine_;
  const prometheus::Labels labels_;  ///< Of every series but the process's.
  prometheus::Registry registry_;

  prometheus::Gauge& running_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& cache_usage_;
  prometheus::Gauge& pages_in_use_;
  prometheus::Gauge& chunk_tokens_;
  prometheus::Gauge& resident_bytes_;
  prometheus::Counter& cpu_seconds_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generated_tokens_;

  prometheus::Histogram& first_token_;
  prometheus::Histogram& token_gap_;
  prometheus::Histogram& token_mean_;
  prometheus::Histogram& end_to_end_;
  prometheus::Histogram& queue_;
  prometheus::Histogram& inference_;
  prometheus::Histogram& prefill_;
  prometheus::Histogram& decode_;
  prometheus::Histogram& request_prompt_;
  prometheus::Histogram& request_generated_;
  prometheus::Histogram& step_tokens_;

  std::array<prometheus::Counter*, kFinishReasons> finished_{};  ///< Some share a label.
  std::array<prometheus::Counter*, 2> steps_{};                  ///< Pure decode, loaded.
  std::array<prometheus::Histogram*, 2> step_seconds_{};

  std::mutex page_;         ///< One page at a time; guards what follows.
  uint64_t next_step_ = 0;  ///< The first whose record is not in the histograms.
};

}  // namespace decant
