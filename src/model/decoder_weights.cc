#include "model/decoder_weights.h"

#include <initializer_list>
#include <string>
#include <utility>

#include "model/decoder_tensors.h"
#include "weights/block_codes.h"
#include "weights/dequantize.h"

namespace decant {
namespace {

/// Where in the file a row of the operations' order stands.
using RowOrder = std::function<int64_t(int64_t row)>;

/// Reads tensors of one model for one packing.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const TensorSource> source, const ModelConfig& config,
               const LoadProgress& progress)
      : source_(std::move(source)), config_(config), progress_(progress) {}

  /// A matrix with its rows in the order of the operations.
  Expected<RowSource> Matrix(TensorRole role, int32_t layer = 0) const {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor,
                            FindDecoderTensor(*source_, config_, role, layer));
    return Rows(tensor, OrderOf(role));
  }

  /// A vector, likewise.
  Expected<std::vector<float>> Vector(TensorRole role, int32_t layer = 0) {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor,
                            FindDecoderTensor(*source_, config_, role, layer));
    std::vector<float> stored(tensor->elements());
    DECANT_RETURN_IF_ERROR(
        Dequantize(tensor->type, tensor->data, stored).WithContext(tensor->name));
    Count(*tensor);
    const RowOrder order = OrderOf(role);
    if (!order) return stored;
    std::vector<float> values(stored.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = stored[order(static_cast<int64_t>(i))];
    return values;
  }

  /// Says that these tensors are packed: their pages are not needed any more.
  void Done(std::initializer_list<TensorRole> roles, int32_t layer = 0) {
    for (const TensorRole role : roles) {
      const TensorInfo* tensor = source_->Find(TensorName(config_.tensor_naming, role, layer));
      if (tensor == nullptr) continue;
      source_->Release(tensor->data);
      Count(*tensor);
    }
  }

 private:
  void Count(const TensorInfo& tensor) {
    done_ += static_cast<int64_t>(tensor.data.size());
    if (progress_) progress_(done_, source_->data_bytes());
  }

  /// Empty where the file's order is that of the operations.
  RowOrder OrderOf(TensorRole role) const {
    const bool rotated = role == TensorRole::kQuery || role == TensorRole::kKey ||
                         role == TensorRole::kQueryBias || role == TensorRole::kKeyBias;
    if (!rotated || config_.file_rope_pairs == RopePairs::kHalves) return nullptr;
    return [dim = int64_t{config_.shape.head_dim}](int64_t row) {
      const int64_t i = row % dim;
      return row - i + i % (dim / 2) * 2 + i / (dim / 2);
    };
  }

  RowSource Rows(const TensorInfo* tensor, const RowOrder& order) const {
    const int64_t rows = tensor->rows();
    const int64_t cols = tensor->row_length();
    const size_t row_bytes = tensor->data.size() / rows;
    const auto encoded_row = [tensor, order, row_bytes](int64_t row) {
      return tensor->data.subspan((order ? order(row) : row) * row_bytes, row_bytes);
    };
    // What is read here lives as long as the function does.
    RowSource rows_of{.rows = rows,
                      .cols = cols,
                      .read = [source = source_, type = tensor->type, cols, encoded_row](
                                  int64_t first, int64_t count, float* out) {
                        for (int64_t row = first; row < first + count; ++row) {
                          const Status status =
                              Dequantize(type, encoded_row(row),
                                         std::span<float>(out + (row - first) * cols, cols));
                          DECANT_CHECK(status.ok(), "{}", status.ToString());
                        }
                      }};
    rows_of.code_bits = BlockCodeBits(tensor->type);
    if (rows_of.code_bits == 0) return rows_of;
    rows_of.read_codes = [source = source_, type = tensor->type, cols, encoded_row](
                             int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                             uint16_t* offsets) {
      const int64_t blocks = cols / kCodeBlock;
      for (int64_t row = 0; row < count; ++row) {
        const Status status = ReadBlockCodes(type, encoded_row(first + row),
                                             std::span<int8_t>(codes + row * cols, cols),
                                             std::span<uint16_t>(scales + row * blocks, blocks),
                                             std::span<uint16_t>(offsets + row * blocks, blocks));
        DECANT_CHECK(status.ok(), "{}", status.ToString());
      }
    };
    return rows_of;
  }

  std::shared_ptr<const TensorSource> source_;
  const ModelConfig& config_;
  const LoadProgress& progress_;
  int64_t done_ = 0;
};

/// The vectors of the roles, one after another.
Expected<std::unique_ptr<VectorWeight>> LoadVector(std::initializer_list<TensorRole> roles,
                                                   int32_t index, TensorReader& reader, Ops& ops) {
  std::vector<float> all;
  for (const TensorRole role : roles) {
    DECANT_ASSIGN_OR_RETURN(const std::vector<float> part, reader.Vector(role, index));
    all.insert(all.end(), part.begin(), part.end());
  }
  return ops.PackVector(all);
}

Expected<LayerWeights> LoadLayer(int32_t index, const ModelConfig& config, TensorReader& reader,
                                 Ops& ops) {
  using Role = TensorRole;
  const auto vector = [&](std::initializer_list<Role> roles) {
    return LoadVector(roles, index, reader, ops);
  };
  LayerWeights layer;
  DECANT_ASSIGN_OR_RETURN(layer.attention_norm, vector({Role::kAttentionNorm}));
  DECANT_ASSIGN_OR_RETURN(const RowSource q, reader.Matrix(Role::kQuery, index));
  DECANT_ASSIGN_OR_RETURN(const RowSource k, reader.Matrix(Role::kKey, index));
  DECANT_ASSIGN_OR_RETURN(const RowSource v, reader.Matrix(Role::kValue, index));
  layer.qkv = ops.PackQkv(*layer.attention_norm, q, k, v);
  reader.Done({Role::kQuery, Role::kKey, Role::kValue}, index);
  if (config.qkv_bias) {
    DECANT_ASSIGN_OR_RETURN(layer.qkv_bias,
                            vector({Role::kQueryBias, Role::kKeyBias, Role::kValueBias}));
  }
  if (config.qk_norm) {
    DECANT_ASSIGN_OR_RETURN(layer.q_norm, vector({Role::kQueryNorm}));
    DECANT_ASSIGN_OR_RETURN(layer.k_norm, vector({Role::kKeyNorm}));
  }
  DECANT_ASSIGN_OR_RETURN(const RowSource output, reader.Matrix(Role::kAttentionOutput, index));
  layer.output = ops.PackProjection(output);
  reader.Done({Role::kAttentionOutput}, index);
  DECANT_ASSIGN_OR_RETURN(layer.mlp_norm, vector({Role::kMlpNorm}));
  DECANT_ASSIGN_OR_RETURN(const RowSource gate, reader.Matrix(Role::kGate, index));
  DECANT_ASSIGN_OR_RETURN(const RowSource up, reader.Matrix(Role::kUp, index));
  layer.gate_up = ops.PackGateUp(*layer.mlp_norm, gate, up);
  reader.Done({Role::kGate, Role::kUp}, index);
  DECANT_ASSIGN_OR_RETURN(const RowSource down, reader.Matrix(Role::kDown, index));
  layer.down = ops.PackProjection(down);
  reader.Done({Role::kDown}, index);
  return layer;
}

}  // namespace

Expected<DecoderWeights> LoadDecoderWeights(const std::shared_ptr<const TensorSource>& source,
                                            const ModelConfig& config, Ops& ops,
                                            const LoadProgress& progress) {
  TensorReader reader(source, config, progress);
  DecoderWeights weights;
  DECANT_ASSIGN_OR_RETURN(const RowSource embedding, reader.Matrix(TensorRole::kEmbedding));
  weights.embedding = ops.PackEmbedding(embedding);
  DECANT_ASSIGN_OR_RETURN(weights.final_norm, LoadVector({TensorRole::kFinalNorm}, 0, reader, ops));
  // The largest matrix first: beside it, its pages of the file are in memory while it is packed.
  const TensorRole head_role = config.tied_head ? TensorRole::kEmbedding : TensorRole::kHead;
  DECANT_ASSIGN_OR_RETURN(const RowSource head, reader.Matrix(head_role));
  weights.head = ops.PackHead(*weights.final_norm, head);
  reader.Done({TensorRole::kEmbedding});
  if (!config.tied_head) reader.Done({TensorRole::kHead});
  for (int32_t i = 0; i < config.shape.layers; ++i) {
    DECANT_ASSIGN_OR_RETURN(LayerWeights layer, LoadLayer(i, config, reader, ops));
    weights.layers.push_back(std::move(layer));
  }
  DECANT_RETURN_IF_ERROR(ops.FinishLoading());
  return weights;
}

}  // namespace decant
