#include "bench/linear_bench.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/interrupt.h"
#include "base/narrow.h"
#include "bench/attention_batch.h"
#include "bench/quantile.h"

namespace decant {
namespace {

constexpr int32_t kPageSize = 64;
constexpr RandomRows kInputs{.seed = 5, .limit = 1};
constexpr float kWeightLimit = 0.035F;

/// One product's weights in one backend.
class ProductTimer {
 public:
  static Expected<ProductTimer> Make(const OpsFactory& make_ops, const LinearProduct& product,
                                     LinearLayers linear, int32_t max_tokens) {
    ProductTimer timer(product);
    // A decoder that has this product as one of its layers' and little else.
    const bool projects = product.kind == LinearKind::kProjection;
    const bool gates = product.kind == LinearKind::kGateUp;
    const bool samples = product.kind == LinearKind::kHead;
    DECANT_ASSIGN_OR_RETURN(
        timer.ops_,
        make_ops({.shape = {.layers = 1,
                            .hidden = projects ? product.rows : product.cols,
                            .heads = product.heads,
                            .kv_heads = product.kv_heads,
                            .head_dim = product.head_dim,
                            .intermediate = gates      ? product.rows / 2
                                            : projects ? product.cols
                                                       : product.head_dim,
                            .vocab = samples ? product.rows : product.head_dim,
                            .max_positions = max_tokens + kPageSize,
                            .norm_epsilon = 1e-6F,
                            .rope_frequencies = std::vector<float>(product.head_dim / 2, 0)},
                  .max_tokens = max_tokens,
                  .max_rows = 1,
                  .max_samples = samples ? max_tokens : 1,
                  .linear = linear}));
    timer.norm_ = timer.ops_->PackVector(std::vector<float>(product.cols, 1));
    for (int32_t i = 0; i < product.weights; ++i) timer.AddWeight(static_cast<uint64_t>(i) + 1);
    DECANT_RETURN_IF_ERROR(timer.ops_->FinishLoading());
    timer.pages_ = CeilDiv(max_tokens, kPageSize) + 1;
    DECANT_RETURN_IF_ERROR(timer.ops_->AllocateCache(timer.pages_, kPageSize));
    return timer;
  }

  Ops& ops() { return *ops_; }

  /// Seconds of each repeat, divided by the number of weights.
  Expected<std::vector<double>> Measure(int32_t tokens, int32_t repeats, TimedOverlap overlap) {
    const std::vector<CaseRow> rows = {{.query_len = tokens, .context_len = tokens}};
    const AttentionBatch batch(rows, ShuffledTables(rows, kPageSize, pages_, 1));
    ops_->BeginStep(batch.step());
    std::vector<float> inputs(static_cast<size_t>(tokens) * product_.cols);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = kInputs.Value(i);
    if (product_.kind == LinearKind::kProjection) {
      ops_->Upload(inputs, ops_->mlp_hidden());
      ops_->Upload(std::vector<float>(static_cast<size_t>(tokens) * product_.rows),
                   ops_->residual());
    } else {
      ops_->Upload(inputs, ops_->residual());
    }
    sampled_.resize(product_.kind == LinearKind::kHead ? tokens : 0);
    std::iota(sampled_.begin(), sampled_.end(), 0);
    const auto all = [&] {
      for (const LayerWeights& layer : layers_) Compute(layer);
    };
    DECANT_ASSIGN_OR_RETURN(
        std::vector<double> seconds,
        ops_->MeasureSeconds(all, repeats, overlap.value_or(KernelOverlap::kAllowed)));
    for (double& run : seconds) run /= product_.weights;
    return seconds;
  }

 private:
  explicit ProductTimer(LinearProduct product) : product_(std::move(product)) {}

  void AddWeight(uint64_t seed) {
    const auto random = [&](int32_t rows, uint64_t part) {
      return RandomRowSource(rows, product_.cols, {.seed = 3 * seed + part, .limit = kWeightLimit});
    };
    LayerWeights layer;
    switch (product_.kind) {
      case LinearKind::kQkv: {
        const int32_t kv_rows = product_.kv_heads * product_.head_dim;
        layer.attention_norm = ops_->PackVector(std::vector<float>(product_.cols, 1));
        layer.qkv = ops_->PackQkv(*layer.attention_norm, random(product_.rows - 2 * kv_rows, 0),
                                  random(kv_rows, 1), random(kv_rows, 2));
        break;
      }
      case LinearKind::kProjection:
        layer.down = ops_->PackProjection(random(product_.rows, 0));
        break;
      case LinearKind::kGateUp:
        layer.mlp_norm = ops_->PackVector(std::vector<float>(product_.cols, 1));
        layer.gate_up = ops_->PackGateUp(*layer.mlp_norm, random(product_.rows / 2, 0),
                                         random(product_.rows / 2, 1));
        break;
      case LinearKind::kHead:
        layer.output = ops_->PackHead(*norm_, random(product_.rows, 0));
        break;
    }
    layers_.push_back(std::move(layer));
  }

  void Compute(const LayerWeights& layer) {
    switch (product_.kind) {
      case LinearKind::kQkv:
        return ops_->NormQkvRopeAppend(0, layer, ops_->residual(), ops_->queries());
      case LinearKind::kProjection:
        return ops_->ProjectAdd(*layer.down, ops_->mlp_hidden(), ops_->residual());
      case LinearKind::kGateUp:
        return ops_->NormGateUpSilu(layer, ops_->residual(), ops_->mlp_hidden());
      case LinearKind::kHead:
        ops_->NormHead(*norm_, *layer.output, ops_->residual(), sampled_);
        return;
    }
  }

  LinearProduct product_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<VectorWeight> norm_;  ///< the head's
  std::vector<LayerWeights> layers_;    ///< The head is one's `output`.
  std::vector<int32_t> sampled_;
  int32_t pages_ = 0;
};

LinearResult Count(const LinearProduct& product, int32_t tokens, DType dtype) {
  const auto rows = static_cast<double>(product.rows);
  const auto cols = static_cast<double>(product.cols);
  const auto element = static_cast<double>(DTypeSize(dtype));
  const double output = [&] {
    switch (product.kind) {
      case LinearKind::kProjection:
        return 2 * rows * sizeof(float);
      case LinearKind::kGateUp:
        return rows / 2 * element;
      case LinearKind::kHead:
        return rows * sizeof(float);
      default:
        return rows * element;
    }
  }();
  return {.product = product,
          .dtype = dtype,
          .tokens = tokens,
          .bytes = (rows + tokens) * cols * element + tokens * output,
          .operations = 2 * tokens * rows * cols};
}

class LinearBench {
 public:
  LinearBench(const OpsFactory& make_ops, const LinearBenchOptions& options,
              const std::function<Status(const LinearResult&)>& on_result)
      : make_ops_(make_ops), options_(options), on_result_(on_result) {}

  Expected<LinearBenchReport> Run() {
    for (const LinearProduct& product : options_.products) {
      std::vector<int32_t> tokens;
      std::ranges::copy_if(options_.tokens, std::back_inserter(tokens),
                           [&](int32_t count) { return count <= product.most_tokens; });
      if (tokens.empty()) continue;
      for (const LinearLayers linear : options_.linears) {
        DECANT_RETURN_IF_ERROR(RunProduct(product, linear, tokens));
      }
    }
    return std::move(report_);
  }

 private:
  Status RunProduct(const LinearProduct& product, LinearLayers linear,
                    const std::vector<int32_t>& tokens) {
    DECANT_ASSIGN_OR_RETURN(
        ProductTimer timer,
        ProductTimer::Make(make_ops_, product, linear, *std::ranges::max_element(tokens)));
    DECANT_ASSIGN_OR_RETURN(const std::vector<TimedOverlap> overlaps,
                            ChooseOverlaps(timer.ops(), options_.overlaps));
    if (report_.backend.empty()) {
      report_.backend = timer.ops().Describe();
      report_.rates = MeasureRates(timer.ops());
    }
    for (const int32_t count : tokens) {
      for (const TimedOverlap overlap : overlaps) {
        LinearResult result = Count(product, count, timer.ops().cache_type());
        result.linear = linear;
        result.overlap = overlap;
        DECANT_RETURN_IF_ERROR(Time(timer, result));
        if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
      }
    }
    return {};
  }

  Status Time(ProductTimer& timer, LinearResult& result) {
    DECANT_ASSIGN_OR_RETURN(const std::vector<double> seconds,
                            timer.Measure(result.tokens, options_.repeats, result.overlap));
    result.floor = report_.rates.FloorSeconds(result.bytes, result.operations);
    result.median = Median(seconds);
    result.least = std::ranges::min(seconds);
    result.most = std::ranges::max(seconds);
    report_.results.push_back(result);
    return on_result_(result);
  }

  const OpsFactory& make_ops_;
  const LinearBenchOptions& options_;
  const std::function<Status(const LinearResult&)>& on_result_;
  LinearBenchReport report_;
};

}  // namespace

std::vector<LinearProduct> ProductsOf(const DecoderShape& shape, int32_t layers) {
  const int32_t query_cols = shape.heads * shape.head_dim;
  const int32_t qkv_rows = query_cols + 2 * shape.kv_heads * shape.head_dim;
  return {
      {.name = "qkv",
       .kind = LinearKind::kQkv,
       .rows = qkv_rows,
       .cols = shape.hidden,
       .weights = layers,
       .heads = shape.heads,
       .kv_heads = shape.kv_heads,
       .head_dim = shape.head_dim},
      {.name = "o", .rows = shape.hidden, .cols = query_cols, .weights = layers},
      {.name = "gate_up",
       .kind = LinearKind::kGateUp,
       .rows = 2 * shape.intermediate,
       .cols = shape.hidden,
       .weights = layers},
      {.name = "down", .rows = shape.hidden, .cols = shape.intermediate, .weights = layers},
      {.name = "head",
       .kind = LinearKind::kHead,
       .rows = shape.vocab,
       .cols = shape.hidden,
       .most_tokens = 256},
  };
}

Expected<LinearBenchReport> RunLinearBench(
    const OpsFactory& make_ops, const LinearBenchOptions& options,
    const std::function<Status(const LinearResult&)>& on_result) {
  if (options.products.empty()) return InvalidArgument("--products names none");
  if (options.tokens.empty()) return InvalidArgument("--tokens has no value");
  return LinearBench(make_ops, options, on_result).Run();
}

}  // namespace decant
