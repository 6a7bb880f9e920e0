#include "ops/cpu/oracle_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "tensor/host_copy.h"

namespace decant {
namespace {

class DenseWeight : public LinearWeight, public EmbeddingWeight {
 public:
  DenseWeight(std::initializer_list<const RowSource*> parts,
              const std::function<float(float)>& round) {
    for (const RowSource* part : parts) {
      cols_ = part->cols;
      const size_t start = values_.size();
      values_.resize(start + part->rows * part->cols);
      part->read(0, part->rows, values_.data() + start);
      rows_ += part->rows;
    }
    for (float& value : values_) value = round(value);
  }

  int64_t bytes() const override { return static_cast<int64_t>(values_.size() * sizeof(float)); }
  int64_t rows() const { return rows_; }
  const float* Row(int64_t row) const { return values_.data() + row * cols_; }

  /// y = W x.
  std::vector<float> Apply(const float* x) const {
    std::vector<float> y(rows_);
    for (int64_t row = 0; row < rows_; ++row) {
      float sum = 0;
      for (int64_t col = 0; col < cols_; ++col) sum += Row(row)[col] * x[col];
      y[row] = sum;
    }
    return y;
  }

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<float> values_;
};

const DenseWeight& Dense(const LinearWeight& weight) {
  return static_cast<const DenseWeight&>(weight);
}

}  // namespace

std::vector<float> AttendByDefinition(std::span<const float> query, int32_t keys,
                                      const std::function<const float*(int32_t position)>& key,
                                      const std::function<const float*(int32_t position)>& value) {
  const size_t dim = query.size();
  std::vector<float> scores(keys);
  float max = -std::numeric_limits<float>::infinity();
  for (int32_t t = 0; t < keys; ++t) {
    float score = 0;
    for (size_t d = 0; d < dim; ++d) score += query[d] * key(t)[d];
    scores[t] = score / std::sqrt(static_cast<float>(dim));
    max = std::max(max, scores[t]);
  }
  float total = 0;
  for (float& score : scores) {
    score = std::exp(score - max);
    total += score;
  }
  std::vector<float> out(dim);
  for (int32_t t = 0; t < keys; ++t) {
    for (size_t d = 0; d < dim; ++d) out[d] += scores[t] / total * value(t)[d];
  }
  return out;
}

OracleOps::OracleOps(const DecoderShape& shape, int32_t max_tokens, Rounding rounding)
    : shape_(shape),
      rounding_(rounding),
      residual_(static_cast<size_t>(max_tokens) * shape.hidden),
      queries_(static_cast<size_t>(max_tokens) * shape.heads * shape.head_dim),
      attended_(queries_.size()),
      mlp_hidden_(static_cast<size_t>(max_tokens) * shape.intermediate) {}

TensorView OracleOps::View(std::vector<float>& memory, int64_t cols) const {
  return {.data = reinterpret_cast<std::byte*>(memory.data()),
          .dtype = DType::kF32,
          .rows = batch_->tokens(),
          .cols = cols};
}

std::unique_ptr<LinearWeight> OracleOps::PackQkv(const VectorWeight& /*norm*/, const RowSource& q,
                                                 const RowSource& k, const RowSource& v) {
  return std::make_unique<DenseWeight>(std::initializer_list<const RowSource*>{&q, &k, &v},
                                       [this](float value) { return Round(value); });
}

std::unique_ptr<LinearWeight> OracleOps::PackGateUp(const VectorWeight& /*norm*/,
                                                    const RowSource& gate, const RowSource& up) {
  return std::make_unique<DenseWeight>(std::initializer_list<const RowSource*>{&gate, &up},
                                       [this](float value) { return Round(value); });
}

std::unique_ptr<LinearWeight> OracleOps::PackProjection(const RowSource& weight) {
  return std::make_unique<DenseWeight>(std::initializer_list<const RowSource*>{&weight},
                                       [this](float value) { return Round(value); });
}

std::unique_ptr<LinearWeight> OracleOps::PackHead(const VectorWeight& /*norm*/,
                                                  const RowSource& weight) {
  return PackProjection(weight);
}

std::unique_ptr<EmbeddingWeight> OracleOps::PackEmbedding(const RowSource& weight) {
  return std::make_unique<DenseWeight>(std::initializer_list<const RowSource*>{&weight},
                                       [](float value) { return value; });
}

Status OracleOps::AllocateCache(int32_t pages, int32_t page_size) {
  pages_ = pages;
  page_size_ = page_size;
  cache_.assign(static_cast<size_t>(shape_.layers) * pages * page_size * shape_.kv_heads * 2 *
                    shape_.head_dim,
                std::numeric_limits<float>::quiet_NaN());
  return {};
}

float* OracleOps::Slot(int32_t layer, const BatchRow& row, int32_t position, int32_t kv_head,
                       int32_t part) {
  const int64_t page = row.pages[position / page_size_];
  const int64_t slot = (int64_t{layer} * pages_ + page) * page_size_ + position % page_size_;
  return cache_.data() + ((slot * shape_.kv_heads + kv_head) * 2 + part) * shape_.head_dim;
}

void OracleOps::PoisonPage(int32_t page) {
  const int64_t size = int64_t{page_size_} * shape_.kv_heads * 2 * shape_.head_dim;
  for (int32_t layer = 0; layer < shape_.layers; ++layer) {
    std::fill_n(cache_.data() + (int64_t{layer} * pages_ + page) * size, size,
                std::numeric_limits<float>::quiet_NaN());
  }
}

void OracleOps::FillCache(const RandomRows& values) {
  for (size_t i = 0; i < cache_.size(); ++i) cache_[i] = values.Value(i);
}

void OracleOps::WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                          std::span<const float> values) {
  const int64_t dim = shape_.head_dim;
  float* place = cache_.data() + PageStart(layer, page);
  for (int64_t head = 0; head < int64_t{page_size_} * shape_.kv_heads; ++head, place += 2 * dim) {
    std::ranges::copy(keys.subspan(head * dim, dim), place);
    std::ranges::copy(values.subspan(head * dim, dim), place + dim);
  }
}

void OracleOps::ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                         std::span<float> values) const {
  const int64_t dim = shape_.head_dim;
  const float* place = cache_.data() + PageStart(layer, page);
  for (int64_t head = 0; head < int64_t{page_size_} * shape_.kv_heads; ++head, place += 2 * dim) {
    std::copy_n(place, dim, keys.subspan(head * dim, dim).data());
    std::copy_n(place + dim, dim, values.subspan(head * dim, dim).data());
  }
}

void OracleOps::Upload(std::span<const float> values, TensorView view) {
  UploadToHost(values, view);
}

void OracleOps::Download(TensorView view, std::span<float> values) const {
  DownloadFromHost(view, values);
}

void OracleOps::Embed(const EmbeddingWeight& embedding, TensorView residual) {
  const auto& weight = static_cast<const DenseWeight&>(embedding);
  for (int32_t token = 0; token < batch_->tokens(); ++token) {
    std::copy_n(weight.Row(batch_->token_ids[token]), shape_.hidden, residual.Row<float>(token));
  }
}

std::vector<float> OracleOps::Norm(const float* row, std::span<const float> weight) const {
  float squares = 0;
  for (size_t i = 0; i < weight.size(); ++i) squares += row[i] * row[i];
  const float scale =
      1.0F / std::sqrt(squares / static_cast<float>(weight.size()) + shape_.norm_epsilon);
  std::vector<float> out(weight.size());
  for (size_t i = 0; i < weight.size(); ++i) out[i] = row[i] * scale * weight[i];
  return out;
}

std::vector<float> OracleOps::NormRow(const float* row, std::span<const float> weight) const {
  std::vector<float> out = Norm(row, weight);
  for (float& value : out) value = Round(value);
  return out;
}

void OracleOps::Rotate(float* head, int32_t position) const {
  const int32_t half = shape_.head_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * shape_.rope_frequencies[i];
    const float cos = std::cos(angle) * shape_.rope_scale;
    const float sin = std::sin(angle) * shape_.rope_scale;
    const float low = head[i];
    const float high = head[i + half];
    head[i] = low * cos - high * sin;
    head[i + half] = high * cos + low * sin;
  }
}

void OracleOps::NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                                  TensorView queries) {
  const int32_t dim = shape_.head_dim;
  for (int32_t token = 0; token < batch_->tokens(); ++token) {
    const BatchRow& row = batch_->rows[batch_->token_rows[token]];
    const int32_t position = batch_->positions[token];
    std::vector<float> qkv =
        Dense(*weights.qkv)
            .Apply(
                NormRow(residual.Row<float>(token), HostVector::Of(weights.attention_norm)).data());
    const std::span<const float> bias = HostVector::Of(weights.qkv_bias);
    for (size_t i = 0; i < bias.size(); ++i) qkv[i] += bias[i];
    for (int32_t head = 0; head < shape_.heads + shape_.kv_heads; ++head) {
      float* values = qkv.data() + int64_t{head} * dim;
      const std::span<const float> norm =
          HostVector::Of(head < shape_.heads ? weights.q_norm : weights.k_norm);
      if (!norm.empty()) std::ranges::copy(Norm(values, norm), values);
      Rotate(values, position);
    }
    for (float& value : qkv) value = Round(value);
    const float* k = qkv.data() + int64_t{shape_.heads} * dim;
    const float* v = k + int64_t{shape_.kv_heads} * dim;
    std::copy(static_cast<const float*>(qkv.data()), k, queries.Row<float>(token));
    for (int32_t head = 0; head < shape_.kv_heads; ++head) {
      std::copy_n(k + int64_t{head} * dim, dim, Slot(layer, row, position, head, 0));
      std::copy_n(v + int64_t{head} * dim, dim, Slot(layer, row, position, head, 1));
    }
  }
}

void OracleOps::Attention(int32_t layer, TensorView queries, TensorView attended) {
  const int32_t dim = shape_.head_dim;
  for (int32_t token = 0; token < batch_->tokens(); ++token) {
    const BatchRow& row = batch_->rows[batch_->token_rows[token]];
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const int32_t kv_head = head / shape_.group();
      const std::vector<float> out = AttendByDefinition(
          {queries.Row<float>(token) + int64_t{head} * dim, static_cast<size_t>(dim)},
          batch_->positions[token] + 1, [&](int32_t t) { return Slot(layer, row, t, kv_head, 0); },
          [&](int32_t t) { return Slot(layer, row, t, kv_head, 1); });
      std::transform(out.begin(), out.end(), attended.Row<float>(token) + int64_t{head} * dim,
                     [this](float value) { return Round(value); });
    }
  }
}

void OracleOps::ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) {
  for (int32_t token = 0; token < batch_->tokens(); ++token) {
    const std::vector<float> y = Dense(weight).Apply(input.Row<float>(token));
    for (int32_t i = 0; i < shape_.hidden; ++i) residual.Row<float>(token)[i] += y[i];
  }
}

void OracleOps::NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) {
  for (int32_t token = 0; token < batch_->tokens(); ++token) {
    const std::vector<float> y =
        Dense(*weights.gate_up)
            .Apply(NormRow(residual.Row<float>(token), HostVector::Of(weights.mlp_norm)).data());
    for (int32_t i = 0; i < shape_.intermediate; ++i) {
      const float gate = y[i];
      out.Row<float>(token)[i] =
          Round(gate / (1.0F + std::exp(-gate)) * y[shape_.intermediate + i]);
    }
  }
}

TensorView OracleOps::NormHead(const VectorWeight& final_norm, const LinearWeight& head,
                               TensorView residual, std::span<const int32_t> tokens) {
  const auto samples = static_cast<int64_t>(tokens.size());
  logits_.resize(samples * shape_.vocab);
  const TensorView logits{.data = reinterpret_cast<std::byte*>(logits_.data()),
                          .dtype = DType::kF32,
                          .rows = samples,
                          .cols = shape_.vocab};
  for (int64_t i = 0; i < samples; ++i) {
    const std::vector<float> y = Dense(head).Apply(
        NormRow(residual.Row<float>(tokens[i]), HostVector::Of(&final_norm)).data());
    std::copy(y.begin(), y.end(), logits.Row<float>(i));
  }
  return logits;
}

void OracleOps::ParallelFor(int64_t items, const std::function<void(int64_t)>& body) {
  for (int64_t item = 0; item < items; ++item) body(item);
}

}  // namespace decant
