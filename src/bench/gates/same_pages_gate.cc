#include "bench/gates/same_pages_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "bench/gates/precision.h"
#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"
#include "ops/forwarding_ops.h"

namespace decant {
namespace {

class ComparingOps : public ForwardingOps {
 public:
  ComparingOps(std::unique_ptr<Ops> ops, int32_t head_dim,
               std::shared_ptr<std::vector<KernelDistance>> distances)
      : ForwardingOps(std::move(ops)), head_dim_(head_dim), distances_(std::move(distances)) {}

  void BeginStep(const StepBatch& batch) override {
    ForwardingOps::BeginStep(batch);
    decode_tokens_.clear();
    for (const BatchRow& row : batch.rows) {
      if (row.query_len == 1) decode_tokens_.push_back(row.query_start);
    }
    if (decode_tokens_.empty()) return;
    for (KernelDistance& distance : *distances_) {
      if (distance.refused.ok()) ++distance.steps;
    }
  }

  void Attention(int32_t layer, TensorView queries, TensorView attended) override {
    if (decode_tokens_.empty()) return ForwardingOps::Attention(layer, queries, attended);
    const DecodeKernel serving = decode_kernel();
    const auto size = static_cast<size_t>(attended.rows * attended.cols);
    others_.resize(distances_->size());
    for (size_t i = 0; i < distances_->size(); ++i) {
      KernelDistance& distance = (*distances_)[i];
      if (!distance.refused.ok()) continue;
      distance.refused = UseDecodeKernel(distance.kernel);
      if (!distance.refused.ok()) continue;
      ForwardingOps::Attention(layer, queries, attended);
      others_[i].resize(size);
      Download(attended, others_[i]);
    }
    const Status back = UseDecodeKernel(serving);
    DECANT_CHECK(back.ok(), "{}", back.ToString());
    // Last, so that `attended` holds what the serving kernel computed.
    ForwardingOps::Attention(layer, queries, attended);
    served_.resize(size);
    Download(attended, served_);
    for (size_t i = 0; i < distances_->size(); ++i) {
      if ((*distances_)[i].refused.ok()) Compare(others_[i], attended.cols, (*distances_)[i]);
    }
  }

 private:
  void Compare(const std::vector<float>& other, int64_t cols, KernelDistance& distance) const {
    for (const int32_t token : decode_tokens_) {
      for (int64_t head = 0; head < cols; head += head_dim_) {
        const int64_t at = token * cols + head;
        double largest = 0;
        double magnitude = 0;
        for (int64_t i = at; i < at + head_dim_; ++i) {
          const double difference = std::abs(double{served_[i]} - other[i]);
          largest = std::isfinite(difference) ? std::max(largest, difference)
                                              : std::numeric_limits<double>::infinity();
          magnitude = std::max(magnitude, std::abs(double{served_[i]}));
        }
        const double ulps = largest / UnitInLastPlace(cache_type(), magnitude);
        ++distance.outputs;
        distance.largest = std::max(distance.largest, largest);
        distance.largest_ulps = std::max(distance.largest_ulps, ulps);
        if (!(ulps <= kSamePagesUlps)) ++distance.too_far;
      }
    }
  }

  int32_t head_dim_;
  std::shared_ptr<std::vector<KernelDistance>> distances_;
  std::vector<int32_t> decode_tokens_;
  std::vector<std::vector<float>> others_;
  std::vector<float> served_;
};

}  // namespace

std::unique_ptr<Ops> CompareDecodeKernels(std::unique_ptr<Ops> ops, int32_t head_dim,
                                          std::shared_ptr<std::vector<KernelDistance>> distances) {
  return std::make_unique<ComparingOps>(std::move(ops), head_dim, std::move(distances));
}

Expected<GateReport> RunSamePagesGate(const EngineLoader& loader,
                                      const SamePagesGateOptions& options) {
  DECANT_RETURN_IF_ERROR(ValidateWorkloadOptions(options.workload.options));
  const DecodeKernel serving = options.engine.decode_kernel;
  std::vector<DecodeKernel> others = options.others;
  if (others.empty()) others.assign(AllDecodeKernels().begin(), AllDecodeKernels().end());
  std::erase(others, serving);
  const auto distances = std::make_shared<std::vector<KernelDistance>>();
  for (const DecodeKernel kernel : others) distances->push_back({.kernel = kernel});

  EngineOptions engine_options = options.engine;
  engine_options.wrap_ops = [distances, wrapped = options.engine.wrap_ops](
                                std::unique_ptr<Ops> ops, const DecoderShape& shape) {
    if (wrapped) ops = wrapped(std::move(ops), shape);
    return CompareDecodeKernels(std::move(ops), shape.head_dim, distances);
  };
  std::string backend;
  DType storage = DType::kF32;
  Workload workload;
  GateReport report;
  report.gate = "same-pages";
  {
    DECANT_ASSIGN_OR_RETURN(const auto engine,
                            GateEngine::Load(loader, engine_options, LogitGaps::kIgnored));
    backend = engine->model().ops().Describe();
    storage = engine->model().ops().cache_type();
    workload = MakeWorkload(options.workload.name, options.workload.options,
                            options.workload.requests, PromptAlphabet(engine->model().tokenizer()));
    const Status served = engine->Serve(workload.items).status();
    if (!served.ok() && !engine->FailedByItself(served)) return served;
    if (!served.ok()) report.failures.push_back(served.message());
  }  // The engine's threads have ended, and distances are this thread's.

  TextTable table({"kernel", "steps", "heads", "largest difference", "ulps", "too far"});
  JsonArray lines;
  bool any = false;
  for (const KernelDistance& distance : *distances) {
    const std::string name(DecodeKernelName(distance.kernel));
    if (!distance.refused.ok()) {
      if (!options.others.empty()) report.failures.push_back(distance.refused.message());
      report.notes.push_back(distance.refused.message());
      continue;
    }
    any = any || distance.outputs > 0;
    table.AddRow({name, fmt::format("{}", distance.steps), fmt::format("{}", distance.outputs),
                  fmt::format("{:.2e}", distance.largest),
                  fmt::format("{:.2f}", distance.largest_ulps),
                  fmt::format("{}", distance.too_far)});
    lines.Add(JsonObject()
                  .Add("kernel", name)
                  .Add("steps", distance.steps)
                  .Add("heads", distance.outputs)
                  .Add("largest_difference", distance.largest)
                  .Add("largest_ulps", distance.largest_ulps)
                  .Add("too_far", distance.too_far));
    if (!(distance.largest < report.largest_difference)) {
      report.largest_difference = distance.largest;
    }
    report.largest_ulps = std::max(report.largest_ulps.value_or(0), distance.largest_ulps);
    if (distance.too_far > 0) {
      report.failures.push_back(fmt::format(
          "{} and {}: {} of {} heads are more than {:g} units in the last place apart", name,
          DecodeKernelName(serving), distance.too_far, distance.outputs, kSamePagesUlps));
    }
  }
  if (!any) report.failures.emplace_back("no other decode kernel ran");
  report.compared.Add("backend", backend)
      .Add("storage", DTypeName(storage))
      .Add("serving_kernel", DecodeKernelName(serving))
      .Add("page_size", options.engine.page_size)
      .Add("workload", workload.name)
      .Add("requests", workload.items.size())
      .Add("generated_tokens", workload.budget_tokens())
      .Add("kernels", lines);
  report.table =
      fmt::format("{}; other kernels beside {} in every decode step, pages of {}\n{}", backend,
                  DecodeKernelName(serving), options.engine.page_size, table.ToString());
  return report;
}

}  // namespace decant
