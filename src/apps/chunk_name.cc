#include "apps/chunk_name.h"

#include <fmt/format.h>

namespace decant {

std::string ChunkName(const EngineOptions& options) {
  if (!options.auto_chunk) return fmt::format("{}", options.chunk_tokens);
  if (!options.max_step_ms) return "auto";
  return fmt::format("auto:{:g}ms", *options.max_step_ms);
}

std::string ChunkLabel(const std::string& name) {
  return name.starts_with("auto") ? ", chunks " + name : "";
}

void AddChunk(const std::string& name, JsonObject& object) {
  if (name.starts_with("auto")) {
    object.Add("chunk_tokens", name);
  } else {
    object.AddJson("chunk_tokens", name);
  }
}

}  // namespace decant
