#include "bench/gates/plain_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "bench/gates/precision.h"

namespace decant {
namespace {

/// exp(score - largest score) of the visible positions.
std::vector<float> Weights(std::span<const float> query, const KvHistory& history, int32_t kv_head,
                           int32_t visible) {
  DECANT_CHECK(visible >= 1 && visible <= history.positions, "{} of {} positions", visible,
               history.positions);
  std::vector<float> scores(visible, 0.0F);
  const float* keys = history.keys.data() + int64_t{kv_head} * history.head_dim * history.positions;
  for (int32_t dim = 0; dim < history.head_dim; ++dim) {
    const float* row = keys + int64_t{dim} * history.positions;
    for (int32_t t = 0; t < visible; ++t) scores[t] += query[dim] * row[t];
  }
  float largest = -std::numeric_limits<float>::infinity();
  for (const float score : scores) largest = std::max(largest, score);
  const float scale = 1.0F / std::sqrt(static_cast<float>(history.head_dim));
  for (float& score : scores) score = std::exp((score - largest) * scale);
  return scores;
}

void WeightedSum(std::span<const float> weights, float total, const KvHistory& history,
                 int32_t kv_head, std::span<float> out) {
  std::ranges::fill(out, 0.0F);
  const float* values =
      history.values.data() + int64_t{kv_head} * history.positions * history.head_dim;
  for (size_t t = 0; t < weights.size(); ++t) {
    const float* row = values + static_cast<int64_t>(t) * history.head_dim;
    for (int32_t dim = 0; dim < history.head_dim; ++dim) out[dim] += weights[t] * row[dim];
  }
  for (float& value : out) value /= total;
}

float Sum(std::span<const float> values) {
  float sum = 0;
  for (const float value : values) sum += value;
  return sum;
}

}  // namespace

KvHistory ReadHistory(const Ops& ops, const PageShape& shape, int32_t layer,
                      std::span<const int32_t> pages, int32_t positions) {
  KvHistory history{.positions = positions, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim};
  const size_t size = static_cast<size_t>(positions) * shape.kv_heads * shape.head_dim;
  history.keys.resize(size);
  history.values.resize(size);
  std::vector<float> keys(shape.elements());
  std::vector<float> values(shape.elements());
  for (int32_t first = 0; first < positions; first += shape.page_size) {
    ops.ReadPage(layer, pages[first / shape.page_size], keys, values);
    const int32_t slots = std::min(shape.page_size, positions - first);
    for (int32_t slot = 0; slot < slots; ++slot) {
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        const int64_t from = (int64_t{slot} * shape.kv_heads + head) * shape.head_dim;
        const int64_t t = first + slot;
        for (int32_t dim = 0; dim < shape.head_dim; ++dim) {
          history.keys[(int64_t{head} * shape.head_dim + dim) * positions + t] = keys[from + dim];
        }
        std::copy_n(values.data() + from, shape.head_dim,
                    history.values.data() + (int64_t{head} * positions + t) * shape.head_dim);
      }
    }
  }
  return history;
}

void AttendPlainly(std::span<const float> query, const KvHistory& history, int32_t kv_head,
                   int32_t visible, std::span<float> out) {
  const std::vector<float> weights = Weights(query, history, kv_head, visible);
  WeightedSum(weights, Sum(weights), history, kv_head, out);
}

void AttendRounded(std::span<const float> query, const KvHistory& history, int32_t kv_head,
                   int32_t visible, const AttentionRounding& rounding, std::span<float> out) {
  std::vector<float> weights = Weights(query, history, kv_head, visible);
  const float total = Sum(weights);
  for (float& weight : weights) {
    weight = static_cast<float>(RoundTo(rounding.probabilities, weight));
  }
  WeightedSum(weights, total, history, kv_head, out);
  for (float& value : out) value = static_cast<float>(RoundTo(rounding.output, value));
}

}  // namespace decant
