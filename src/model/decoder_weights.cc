#include "model/decoder_weights.h"

#include <fmt/ranges.h>

#include <string>

#include "weights/block_codes.h"
#include "weights/dequantize.h"

namespace decant {
namespace {

/// Reads tensors of one file for one packing.
class TensorReader {
 public:
  TensorReader(std::shared_ptr<const GgufFile> file, const ModelConfig& config,
               const LoadProgress& progress)
      : file_(std::move(file)), config_(config), progress_(progress) {
    for (const TensorInfo& tensor : file_->tensors())
      total_ += static_cast<int64_t>(tensor.data.size());
  }

  /// A matrix [rows, cols] as the file has it.
  Expected<RowSource> Matrix(const std::string& name, int64_t rows, int64_t cols) const {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor, Find(name, {cols, rows}));
    return Rows(tensor, rows, cols, [](int64_t row) { return row; });
  }

  /// A q or k matrix, its rows in the order of RopePairs::kHalves.
  Expected<RowSource> RotatedMatrix(const std::string& name, int64_t rows, int64_t cols) const {
    if (config_.file_rope_pairs == RopePairs::kHalves) return Matrix(name, rows, cols);
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor, Find(name, {cols, rows}));
    const int64_t dim = config_.shape.head_dim;
    return Rows(tensor, rows, cols, [dim](int64_t row) {
      const int64_t head = row / dim;
      const int64_t i = row % dim;
      return head * dim + i % (dim / 2) * 2 + i / (dim / 2);
    });
  }

  Expected<std::vector<float>> Vector(const std::string& name, int64_t size) const {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor, Find(name, {size}));
    std::vector<float> values(size);
    DECANT_RETURN_IF_ERROR(Dequantize(tensor->type, tensor->data, values).WithContext(name));
    return values;
  }

  /// Counts a tensor as packed.
  void Done(const std::string& name) {
    const TensorInfo* tensor = file_->Find(name);
    if (tensor == nullptr || !progress_) return;
    done_ += static_cast<int64_t>(tensor->data.size());
    progress_(done_, total_);
  }

 private:
  Expected<const TensorInfo*> Find(const std::string& name, std::vector<int64_t> dims) const {
    DECANT_ASSIGN_OR_RETURN(const TensorInfo* tensor, file_->Require(name));
    if (tensor->dims != dims) {
      return DataLoss("{}: {} is [{}]; the model's description needs [{}]", file_->path(), name,
                      fmt::join(tensor->dims, ", "), fmt::join(dims, ", "));
    }
    if (!CanDequantize(tensor->type)) {
      return Error(StatusCode::kUnimplemented, "{}: {} is {}, which is not supported",
                   file_->path(), name, GgmlTypeName(tensor->type));
    }
    return tensor;
  }

  template <typename FileRow>
  RowSource Rows(const TensorInfo* tensor, int64_t rows, int64_t cols, FileRow file_row) const {
    const size_t row_bytes = tensor->data.size() / rows;
    RowSource source{.rows = rows,
                     .cols = cols,
                     .read = [file = file_, tensor, cols, row_bytes, file_row](
                                 int64_t first, int64_t count, float* out) {
                       for (int64_t row = first; row < first + count; ++row) {
                         const Status status =
                             Dequantize(tensor->type,
                                        tensor->data.subspan(file_row(row) * row_bytes, row_bytes),
                                        std::span<float>(out + (row - first) * cols, cols));
                         DECANT_CHECK(status.ok(), "{}", status.ToString());
                       }
                     }};
    source.code_bits = BlockCodeBits(tensor->type);
    if (source.code_bits == 0) return source;
    source.read_codes = [file = file_, tensor, cols, row_bytes, file_row](
                            int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                            uint16_t* offsets) {
      const int64_t blocks = cols / kCodeBlock;
      for (int64_t row = 0; row < count; ++row) {
        const Status status = ReadBlockCodes(
            tensor->type, tensor->data.subspan(file_row(first + row) * row_bytes, row_bytes),
            std::span<int8_t>(codes + row * cols, cols),
            std::span<uint16_t>(scales + row * blocks, blocks),
            std::span<uint16_t>(offsets + row * blocks, blocks));
        DECANT_CHECK(status.ok(), "{}", status.ToString());
      }
    };
    return source;
  }

  std::shared_ptr<const GgufFile> file_;
  const ModelConfig& config_;
  const LoadProgress& progress_;
  int64_t done_ = 0;
  int64_t total_ = 0;
};

Expected<LayerWeights> LoadLayer(int32_t index, const ModelConfig& config, TensorReader& reader,
                                 Ops& ops) {
  const DecoderShape& shape = config.shape;
  const int64_t hidden = shape.hidden;
  const int64_t q_rows = int64_t{shape.heads} * shape.head_dim;
  const int64_t kv_rows = int64_t{shape.kv_heads} * shape.head_dim;
  const auto name = [&](std::string_view part) { return fmt::format("blk.{}.{}", index, part); };
  LayerWeights layer;
  DECANT_ASSIGN_OR_RETURN(layer.attention_norm, reader.Vector(name("attn_norm.weight"), hidden));
  DECANT_ASSIGN_OR_RETURN(const RowSource q,
                          reader.RotatedMatrix(name("attn_q.weight"), q_rows, hidden));
  DECANT_ASSIGN_OR_RETURN(const RowSource k,
                          reader.RotatedMatrix(name("attn_k.weight"), kv_rows, hidden));
  DECANT_ASSIGN_OR_RETURN(const RowSource v, reader.Matrix(name("attn_v.weight"), kv_rows, hidden));
  layer.qkv = ops.PackQkv(q, k, v);
  for (const char* part : {"attn_q", "attn_k", "attn_v"}) reader.Done(name(part) + ".weight");
  if (config.qkv_bias) {
    if (config.file_rope_pairs != RopePairs::kHalves) {
      return Error(StatusCode::kUnimplemented, "{}: QKV biases in a {} model", name("attn_q.bias"),
                   config.family);
    }
    for (const auto& [part, rows] :
         {std::pair{"attn_q.bias", q_rows}, std::pair{"attn_k.bias", kv_rows},
          std::pair{"attn_v.bias", kv_rows}}) {
      DECANT_ASSIGN_OR_RETURN(const std::vector<float> bias, reader.Vector(name(part), rows));
      layer.qkv_bias.insert(layer.qkv_bias.end(), bias.begin(), bias.end());
    }
  }
  DECANT_ASSIGN_OR_RETURN(const RowSource output,
                          reader.Matrix(name("attn_output.weight"), hidden, q_rows));
  layer.output = ops.PackProjection(output);
  reader.Done(name("attn_output.weight"));
  DECANT_ASSIGN_OR_RETURN(layer.mlp_norm, reader.Vector(name("ffn_norm.weight"), hidden));
  DECANT_ASSIGN_OR_RETURN(const RowSource gate,
                          reader.Matrix(name("ffn_gate.weight"), shape.intermediate, hidden));
  DECANT_ASSIGN_OR_RETURN(const RowSource up,
                          reader.Matrix(name("ffn_up.weight"), shape.intermediate, hidden));
  layer.gate_up = ops.PackGateUp(gate, up);
  for (const char* part : {"ffn_gate", "ffn_up"}) reader.Done(name(part) + ".weight");
  DECANT_ASSIGN_OR_RETURN(const RowSource down,
                          reader.Matrix(name("ffn_down.weight"), hidden, shape.intermediate));
  layer.down = ops.PackProjection(down);
  reader.Done(name("ffn_down.weight"));
  return layer;
}

}  // namespace

Expected<DecoderWeights> LoadDecoderWeights(const std::shared_ptr<const GgufFile>& file,
                                            const ModelConfig& config, Ops& ops,
                                            const LoadProgress& progress) {
  const DecoderShape& shape = config.shape;
  TensorReader reader(file, config, progress);
  DecoderWeights weights;
  DECANT_ASSIGN_OR_RETURN(const RowSource embedding,
                          reader.Matrix("token_embd.weight", shape.vocab, shape.hidden));
  weights.embedding = ops.PackEmbedding(embedding);
  DECANT_ASSIGN_OR_RETURN(weights.final_norm, reader.Vector("output_norm.weight", shape.hidden));
  for (int32_t i = 0; i < shape.layers; ++i) {
    DECANT_ASSIGN_OR_RETURN(LayerWeights layer, LoadLayer(i, config, reader, ops));
    weights.layers.push_back(std::move(layer));
  }
  const std::string head_name = config.tied_head ? "token_embd.weight" : "output.weight";
  DECANT_ASSIGN_OR_RETURN(const RowSource head,
                          reader.Matrix(head_name, shape.vocab, shape.hidden));
  weights.head = ops.PackHead(head);
  reader.Done(head_name);
  return weights;
}

}  // namespace decant
