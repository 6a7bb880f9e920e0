// A model's description: config.json or, where the input begins as one, a GGUF file. What is
// accepted is a decoder that the operations can compute.

#include <cmath>
#include <cstddef>
#include <string_view>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "model/model_config.h"
#include "weights/gguf.h"
#include "weights/json_metadata.h"

namespace decant {
namespace {

bool Within(int64_t value, int64_t low, int64_t high) { return value >= low && value <= high; }

void CheckShape(const DecoderShape& shape) {
  DECANT_CHECK(Within(shape.layers, 1, 1024) && Within(shape.hidden, 1, 1 << 16));
  DECANT_CHECK(Within(shape.heads, 1, 1024) && Within(shape.kv_heads, 1, shape.heads));
  DECANT_CHECK(shape.heads % shape.kv_heads == 0 && Within(shape.group(), 1, 16));
  DECANT_CHECK(Within(shape.head_dim, 32, 256) && shape.head_dim % 32 == 0);
  DECANT_CHECK(Within(shape.intermediate, 1, 1 << 20) && Within(shape.vocab, 1, 1 << 24));
  DECANT_CHECK(Within(shape.max_positions, 1, 1 << 20));
  DECANT_CHECK(shape.norm_epsilon > 0 && shape.norm_epsilon < 1);
  DECANT_CHECK(shape.rope_frequencies.size() == static_cast<size_t>(shape.head_dim) / 2);
  for (const float frequency : shape.rope_frequencies) {
    DECANT_CHECK(std::isfinite(frequency) && frequency >= 0, "frequency {}", frequency);
  }
  DECANT_CHECK(std::isfinite(shape.rope_scale) && shape.rope_scale > 0);
}

Expected<ModelConfig> Read(std::string_view bytes) {
  if (bytes.starts_with("GGUF")) {
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    DECANT_ASSIGN_OR_RETURN(const GgufFile file,
                            GgufFile::FromBytes("fuzz", {data, data + bytes.size()}));
    return ReadModelConfig(file);
  }
  DECANT_ASSIGN_OR_RETURN(const JsonMetadata json, JsonMetadata::Parse("fuzz", bytes));
  return ReadModelConfig(json);
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  const testing::FuzzInput input(data, size);
  const Expected<ModelConfig> config = Read(input.rest());
  if (!config.ok()) {
    const Status status = config.status();
    DECANT_CHECK(status.message().starts_with("fuzz"), "{}", status.ToString());
    DECANT_CHECK(status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound ||
                     status.code() == StatusCode::kUnimplemented,
                 "{}", status.ToString());
    return 0;
  }
  CheckShape(config->shape);
  DECANT_CHECK(std::isfinite(config->rope_base) && config->rope_base > 0);
  DECANT_CHECK(config->KvBytesPerToken(4) > 0);
  return 0;
}
