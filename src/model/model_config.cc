#include "model/model_config.h"

#include <algorithm>
#include <utility>

namespace decant::internal {
namespace {

constexpr int32_t kMaxPositions = 1 << 20;
constexpr float kMaxRopeBase = 1e30F;

Status CheckRange(std::string_view label, std::string_view key, int64_t value, int64_t low,
                  int64_t high) {
  if (value >= low && value <= high) return {};
  return DataLoss("{}: {} is {}; {} to {} is supported", label, key, value, low, high);
}

}  // namespace

Status FinishConfig(std::string_view label, const ShapeKeys& keys, ModelConfig& config) {
  DecoderShape& shape = config.shape;
  const auto check = [&](std::string_view key, int64_t value, int64_t low, int64_t high) {
    return CheckRange(label, key, value, low, high);
  };
  DECANT_RETURN_IF_ERROR(check(keys.layers, shape.layers, 1, 1024));
  DECANT_RETURN_IF_ERROR(check(keys.hidden, shape.hidden, 32, 65536));
  DECANT_RETURN_IF_ERROR(check(keys.heads, shape.heads, 1, 1024));
  DECANT_RETURN_IF_ERROR(check(keys.kv_heads, shape.kv_heads, 1, shape.heads));
  DECANT_RETURN_IF_ERROR(check(keys.intermediate, shape.intermediate, 32, 1 << 20));
  DECANT_RETURN_IF_ERROR(check(keys.max_positions, shape.max_positions, 1, kMaxPositions));
  if (shape.heads % shape.kv_heads != 0 || shape.group() > 16) {
    return DataLoss(
        "{}: {} heads on {} KV heads ({}, {}); a whole number of 1 to 16 heads each is supported",
        label, shape.heads, shape.kv_heads, keys.heads, keys.kv_heads);
  }
  DECANT_RETURN_IF_ERROR(check(keys.head_dim, shape.head_dim, 32, 256));
  if (shape.head_dim % 32 != 0) {
    return Error(StatusCode::kUnimplemented, "{}: {} is {}; a multiple of 32 is supported", label,
                 keys.head_dim, shape.head_dim);
  }
  if (!(shape.norm_epsilon > 0) || !(shape.norm_epsilon < 1)) {
    return DataLoss("{}: {} is {}; above 0 and below 1 is supported", label, keys.norm_epsilon,
                    shape.norm_epsilon);
  }
  if (!(config.rope_base >= 1 && config.rope_base <= kMaxRopeBase)) {
    return DataLoss("{}: {} is {}; 1 to {} is supported", label, keys.rope_base, config.rope_base,
                    kMaxRopeBase);
  }
  Expected<RopeTable> rope = ComputeRope(config.rope_base, shape.head_dim, config.rope_scaling);
  if (!rope.ok()) return rope.status().WithContext(fmt::format("{}: {}", label, keys.rope_scaling));
  shape.rope_frequencies = std::move(rope->frequencies);
  shape.rope_scale = rope->scale;
  if (config.rope_scaling.kind == RopeKind::kYarn) {
    const double stretched = config.rope_scaling.factor * config.rope_scaling.original_positions;
    shape.max_positions = std::max(
        shape.max_positions, static_cast<int32_t>(std::min<double>(stretched, kMaxPositions)));
  }
  return {};
}

Status CheckTokenId(std::string_view label, std::string_view key, int32_t id, int32_t vocab) {
  return CheckRange(label, key, id, 0, vocab - 1);
}

}  // namespace decant::internal
