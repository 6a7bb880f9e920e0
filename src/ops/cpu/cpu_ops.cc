#include "ops/cpu/cpu_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/check.h"
#include "base/narrow.h"
#include "tensor/host_copy.h"

namespace decant {
namespace {

/// Output columns of one matmul. Narrow slices stay in a core's cache while tokens pass by and give
/// every thread some.
constexpr int32_t kSliceRows = 192;

constexpr int32_t kMaxHeadDim = 256;

class CpuEmbedding : public EmbeddingWeight {
 public:
  explicit CpuEmbedding(RowSource rows) : rows_(std::move(rows)) {}
  const RowSource& rows() const { return rows_; }

 private:
  RowSource rows_;
};

const SlicedLinear& AsSliced(const LinearWeight& weight) {
  return static_cast<const SlicedLinear&>(weight);
}

/// The width, among a few that matrix units like, that cuts `rows` into the most even number of
/// slices.
int32_t SliceRows(int64_t rows, std::initializer_list<int32_t> widths) {
  for (int64_t wanted_factor : {4, 2, 1}) {
    for (int32_t width : widths) {
      if (rows % (width * wanted_factor) == 0) return width;
    }
  }
  return *widths.begin();
}

/// Calls part(source, first row in it, rows, rows before) for the pieces of [first, first + count)
/// of q's, k's and v's rows one after another.
template <typename Part>
void ForParts(std::initializer_list<const RowSource*> sources, int64_t first, int64_t count,
              Part&& part) {
  int64_t done = 0;
  for (const RowSource* source : sources) {
    const int64_t taken = std::min(count - done, source->rows - first);
    if (taken > 0) {
      part(*source, first, taken, done);
      done += taken;
    }
    first = std::max<int64_t>(0, first - source->rows);
  }
}

/// The rows of all three, one after another. The sources must outlive the result.
RowSource Concatenate(const RowSource& q, const RowSource& k, const RowSource& v) {
  RowSource all{.rows = q.rows + k.rows + v.rows,
                .cols = q.cols,
                .read = [&](int64_t first, int64_t count, float* out) {
                  ForParts({&q, &k, &v}, first, count,
                           [&](const RowSource& source, int64_t row, int64_t rows, int64_t before) {
                             source.read(row, rows, out + before * source.cols);
                           });
                }};
  if (q.code_bits != k.code_bits || q.code_bits != v.code_bits) return all;
  all.code_bits = q.code_bits;
  all.read_codes = [&](int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                       uint16_t* offsets) {
    ForParts({&q, &k, &v}, first, count,
             [&](const RowSource& source, int64_t row, int64_t rows, int64_t before) {
               const int64_t blocks = before * source.cols / 32;
               source.read_codes(row, rows, codes + before * source.cols, scales + blocks,
                                 offsets + blocks);
             });
  };
  return all;
}

/// Slice by slice as many gate rows as up rows, the gate's first, so that a slice's epilogue can
/// multiply them. Rows must be read by whole slices. The sources must outlive the result.
RowSource Interleave(const RowSource& gate, const RowSource& up) {
  RowSource both{.rows = gate.rows + up.rows,
                 .cols = gate.cols,
                 .read = [&](int64_t first, int64_t count, float* out) {
                   gate.read(first / 2, count / 2, out);
                   up.read(first / 2, count / 2, out + count / 2 * gate.cols);
                 }};
  if (gate.code_bits != up.code_bits) return both;
  both.code_bits = gate.code_bits;
  both.read_codes = [&](int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                        uint16_t* offsets) {
    const int64_t cells = count / 2 * gate.cols;
    gate.read_codes(first / 2, count / 2, codes, scales, offsets);
    up.read_codes(first / 2, count / 2, codes + cells, scales + cells / 32, offsets + cells / 32);
  };
  return both;
}

/// The level of our own kernels that goes with what oneDNN was allowed to use.
CpuLevel AllowedLevel() {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [isa](dnnl::cpu_isa wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  CpuLevel allowed = CpuLevel::kBaseline;
  if (has(dnnl::cpu_isa::avx2)) allowed = CpuLevel::kAvx2;
  if (has(dnnl::cpu_isa::avx512_core)) allowed = CpuLevel::kAvx512;
  if (has(dnnl::cpu_isa::avx512_core_bf16)) allowed = CpuLevel::kAvx512Bf16;
  if (has(dnnl::cpu_isa::avx512_core_amx)) allowed = CpuLevel::kAmx;
  return std::min(allowed, DetectCpuLevel());
}

}  // namespace

CpuOps::CpuOps(const CpuOpsOptions& options)
    : shape_(options.shape),
      level_(AllowedLevel()),
      kernels_(KernelsFor(level_)),
      dtype_(level_ >= CpuLevel::kAvx512Bf16 ? DType::kBf16 : DType::kF32),
      linear_layers_(options.linear),
      pool_(options.threads),
      linear_(dtype_, options.linear, options.weight_copies, kernels_, pool_),
      attention_(options.shape, options.decode_kernel, kernels_, pool_),
      residual_(options.max_tokens, shape_.hidden, DType::kF32),
      normed_(std::max(options.max_tokens, options.max_samples), shape_.hidden, dtype_),
      queries_(options.max_tokens, int64_t{shape_.heads} * shape_.head_dim, DType::kBf16),
      attended_(options.max_tokens, int64_t{shape_.heads} * shape_.head_dim, dtype_),
      mlp_hidden_(options.max_tokens, shape_.intermediate, dtype_),
      logits_(options.max_samples, shape_.vocab, DType::kF32) {
  DECANT_CHECK(shape_.head_dim % 32 == 0 && shape_.head_dim <= kMaxHeadDim, "head_dim {}",
               shape_.head_dim);
  const int32_t half = shape_.head_dim / 2;
  cos_.resize(static_cast<size_t>(shape_.max_positions) * half);
  sin_.resize(cos_.size());
  DECANT_CHECK(static_cast<int32_t>(shape_.rope_frequencies.size()) == half,
               "{} rotary frequencies for a head of {} dims", shape_.rope_frequencies.size(),
               shape_.head_dim);
  pool_.Run(shape_.max_positions, [&](int64_t position, int) {
    for (int32_t i = 0; i < half; ++i) {
      // In float, as the reference implementation computes angles.
      const float angle = static_cast<float>(position) * shape_.rope_frequencies[i];
      cos_[position * half + i] = std::cos(angle) * shape_.rope_scale;
      sin_[position * half + i] = std::sin(angle) * shape_.rope_scale;
    }
  });
}

std::string CpuOps::Describe() const {
  const auto* version = dnnl::version();
  const bool compact = layer_cost_.compact_bytes != layer_cost_.bytes;
  const std::string library = fmt::format(
      "{} weights by oneDNN {}.{}.{}{}", dtype_ == DType::kBf16 ? "bf16" : "fp32", version->major,
      version->minor, version->patch, compact ? " and as quantised" : "");
  return fmt::format("cpu: {} kernels, {}, {} thread{}", kernels_.name,
                     int8_weights_ > 0 ? "quantised weights times 8-bit activations" : library,
                     pool_.threads(), pool_.threads() == 1 ? "" : "s");
}

Status CpuOps::FinishLoading() {
  if (linear_layers_ != LinearLayers::kInt8 || int8_weights_ > 0) return {};
  return InvalidArgument(
      "--linear int8 needs a model with weights in 4-bit or 8-bit blocks (Q4_1, Q8_0); this "
      "one has none");
}

std::unique_ptr<LinearWeight> CpuOps::Pack(const RowSource& source, int32_t slice_rows,
                                           WeightCost& cost) {
  auto weight = linear_.Pack(source, slice_rows);
  int8_weights_ += static_cast<int32_t>(weight->int8());
  cost.bytes += static_cast<double>(weight->bytes());
  cost.compact_bytes += static_cast<double>(weight->compact_bytes());
  cost.cells += static_cast<double>(source.rows * source.cols);
  return weight;
}

std::unique_ptr<LinearWeight> CpuOps::PackQkv(const VectorWeight& /*norm*/, const RowSource& q,
                                              const RowSource& k, const RowSource& v) {
  // Whole heads in each slice, so that its epilogue can rotate them.
  const int32_t heads = std::max(1, 128 / shape_.head_dim);
  return Pack(Concatenate(q, k, v), heads * shape_.head_dim, layer_cost_);
}

std::unique_ptr<LinearWeight> CpuOps::PackGateUp(const VectorWeight& /*norm*/,
                                                 const RowSource& gate, const RowSource& up) {
  return Pack(Interleave(gate, up), 2 * SliceRows(gate.rows, {96, 64, 80, 48}), layer_cost_);
}

std::unique_ptr<LinearWeight> CpuOps::PackProjection(const RowSource& weight) {
  return Pack(weight, SliceRows(weight.rows, {kSliceRows, 128, 96, 64}), layer_cost_);
}

std::unique_ptr<LinearWeight> CpuOps::PackHead(const VectorWeight& /*norm*/,
                                               const RowSource& weight) {
  return Pack(weight, kSliceRows, head_cost_);
}

std::unique_ptr<EmbeddingWeight> CpuOps::PackEmbedding(const RowSource& weight) {
  return std::make_unique<CpuEmbedding>(weight);
}

Status CpuOps::AllocateCache(int32_t pages, int32_t page_size) {
  cache_ = CpuKvCache(shape_.layers, shape_.kv_heads, shape_.head_dim, pages, page_size);
  return {};
}

void CpuOps::Upload(std::span<const float> values, TensorView view) { UploadToHost(values, view); }

void CpuOps::Download(TensorView view, std::span<float> values) const {
  DownloadFromHost(view, values);
}

Status CpuOps::UseDecodeKernel(DecodeKernel kernel) {
  if (kernel != DecodeKernel::kRows && kernel != DecodeKernel::kSplit) {
    return Error(StatusCode::kUnimplemented,
                 "the CPU has no decode kernel '{}'; it has rows, split", DecodeKernelName(kernel));
  }
  attention_.UseKernel(kernel);
  return {};
}

void CpuOps::BeginStep(const StepBatch& batch) {
  DECANT_CHECK(batch.tokens() > 0 && residual_.buffer.size() >=
                                         (batch.tokens() + LinearEngine::kPadding) *
                                             static_cast<size_t>(shape_.hidden) * sizeof(float),
               "a step of {} tokens", batch.tokens());
  batch_ = &batch;
  head_bytes_ = 0;
  head_tokens_ = 0;
  attention_.Plan(batch, cache_);
  token_pages_.resize(batch.tokens());
  token_slots_.resize(batch.tokens());
  for (int32_t token = 0; token < batch.tokens(); ++token) {
    const int32_t position = batch.positions[token];
    const BatchRow& row = batch.rows[batch.token_rows[token]];
    token_pages_[token] = row.pages[position / cache_.page_size()];
    token_slots_[token] = position % cache_.page_size();
  }
}

void CpuOps::Embed(const EmbeddingWeight& embedding, TensorView residual) {
  const RowSource& rows = static_cast<const CpuEmbedding&>(embedding).rows();
  pool_.Run(batch_->tokens(), [&](int64_t token, int) {
    rows.read(batch_->token_ids[token], 1, residual.Row<float>(token));
  });
}

void CpuOps::NormRow(const float* row, std::span<const float> weight, TensorView out,
                     int32_t index) {
  if (dtype_ == DType::kBf16) {
    kernels_.rms_norm_bf16(row, weight.data(), shape_.norm_epsilon, shape_.hidden,
                           out.Row<Bf16>(index));
  } else {
    kernels_.rms_norm_f32(row, weight.data(), shape_.norm_epsilon, shape_.hidden,
                          out.Row<float>(index));
  }
}

template <typename TokenOf>
TensorView CpuOps::Norm(std::span<const float> weight, TensorView residual, int32_t rows,
                        TokenOf&& token_of) {
  const TensorView out = normed_.View(rows);
  // A region costs about a microsecond, as much as some rows' norms.
  constexpr int32_t kRowsPerItem = 16;
  pool_.Run(CeilDiv(rows, kRowsPerItem), [&](int64_t item, int) {
    const auto first = static_cast<int32_t>(item) * kRowsPerItem;
    for (int32_t i = first; i < std::min(rows, first + kRowsPerItem); ++i) {
      NormRow(residual.Row<float>(token_of(i)), weight, out, i);
    }
  });
  return out;
}

void CpuOps::NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                               TensorView queries) {
  const int32_t tokens = batch_->tokens();
  const TensorView normed =
      Norm(HostVector::Of(weights.attention_norm), residual, tokens, [](int32_t i) { return i; });
  const int32_t dim = shape_.head_dim;
  const std::span<const float> all_biases = HostVector::Of(weights.qkv_bias);
  const float* bias = all_biases.empty() ? nullptr : all_biases.data();
  linear_.Run(AsSliced(*weights.qkv), normed, tokens,
              [&](const SlicedLinear::Slice& slice, int32_t first, int32_t count, float* out, int) {
                for (int32_t i = 0; i < count; ++i) {
                  const int32_t token = first + i;
                  const int64_t angle = int64_t{batch_->positions[token]} * (dim / 2);
                  for (int32_t column = 0; column < slice.rows; column += dim) {
                    float* head = out + int64_t{i} * slice.rows + column;
                    if (bias != nullptr) kernels_.add(head, bias + slice.first_row + column, dim);
                    auto index = static_cast<int32_t>((slice.first_row + column) / dim);
                    std::array<Bf16, kMaxHeadDim> rounded;
                    if (index < shape_.heads + shape_.kv_heads) {
                      const std::span<const float> norm =
                          HostVector::Of(index < shape_.heads ? weights.q_norm : weights.k_norm);
                      if (!norm.empty()) {
                        kernels_.rms_norm_f32(head, norm.data(), shape_.norm_epsilon, dim, head);
                      }
                      kernels_.rope(head, cos_.data() + angle, sin_.data() + angle, dim);
                    }
                    if (index < shape_.heads) {
                      kernels_.to_bf16(head, dim, queries.Row<Bf16>(token) + index * dim);
                      continue;
                    }
                    kernels_.to_bf16(head, dim, rounded.data());
                    index -= shape_.heads;
                    if (index < shape_.kv_heads) {
                      cache_.AppendK(layer, token_pages_[token], token_slots_[token], index,
                                     rounded.data());
                    } else {
                      cache_.AppendV(layer, token_pages_[token], token_slots_[token],
                                     index - shape_.kv_heads, rounded.data());
                    }
                  }
                }
              });
}

void CpuOps::Attention(int32_t layer, TensorView queries, TensorView attended) {
  attention_.Run(layer, cache_, queries, attended);
}

void CpuOps::ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) {
  linear_.Run(AsSliced(weight), input, batch_->tokens(),
              [&](const SlicedLinear::Slice& slice, int32_t first, int32_t count, float* out, int) {
                for (int32_t i = 0; i < count; ++i) {
                  kernels_.add(residual.Row<float>(first + i) + slice.first_row,
                               out + int64_t{i} * slice.rows, slice.rows);
                }
              });
}

void CpuOps::NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) {
  const TensorView normed = Norm(HostVector::Of(weights.mlp_norm), residual, batch_->tokens(),
                                 [](int32_t i) { return i; });
  linear_.Run(
      AsSliced(*weights.gate_up), normed, batch_->tokens(),
      [&](const SlicedLinear::Slice& slice, int32_t first, int32_t count, float* y, int) {
        const int32_t width = slice.rows / 2;
        const int64_t column = slice.first_row / 2;
        for (int32_t i = 0; i < count; ++i) {
          const float* gate = y + int64_t{i} * slice.rows;
          if (dtype_ == DType::kBf16) {
            kernels_.silu_mul_bf16(gate, gate + width, width, out.Row<Bf16>(first + i) + column);
          } else {
            kernels_.silu_mul_f32(gate, gate + width, width, out.Row<float>(first + i) + column);
          }
        }
      });
}

TensorView CpuOps::NormHead(const VectorWeight& final_norm, const LinearWeight& head,
                            TensorView residual, std::span<const int32_t> tokens) {
  const auto samples = static_cast<int32_t>(tokens.size());
  head_bytes_ += BytesRead(head_cost_, samples);
  head_tokens_ += samples;
  const TensorView logits = logits_.View(samples);
  const TensorView normed =
      Norm(HostVector::Of(&final_norm), residual, samples, [&](int32_t i) { return tokens[i]; });
  linear_.Run(AsSliced(head), normed, samples,
              [&](const SlicedLinear::Slice& slice, int32_t first, int32_t count, float* y, int) {
                for (int32_t i = 0; i < count; ++i) {
                  std::copy_n(y + int64_t{i} * slice.rows, slice.rows,
                              logits.Row<float>(first + i) + slice.first_row);
                }
              });
  return logits;
}

double CpuOps::BytesRead(const WeightCost& weights, int64_t tokens) const {
  if (tokens == 0) return 0;
  return tokens <= kernels_.compact_tokens ? weights.compact_bytes : weights.bytes;
}

StepCost CpuOps::Cost() const {
  StepCost cost;
  const AttentionWork attention = CountAttention(batch_->rows);
  const double kv_bytes = 2.0 * shape_.kv_heads * shape_.head_dim * sizeof(Bf16) * shape_.layers;
  cost.bytes = BytesRead(layer_cost_, batch_->tokens()) + head_bytes_ + attention.keys * kv_bytes;
  cost.operations = 2 * (batch_->tokens() * layer_cost_.cells +
                         static_cast<double>(head_tokens_) * head_cost_.cells) +
                    4 * attention.products * shape_.heads * shape_.head_dim * shape_.layers;
  return cost;
}

void CpuOps::ParallelFor(int64_t items, const std::function<void(int64_t)>& body) {
  pool_.Run(items, [&](int64_t item, int) { body(item); });
}

}  // namespace decant
