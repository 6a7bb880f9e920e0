#pragma once

#include <string>

#include "base/json.h"
#include "engine/load_engine.h"

namespace decant {

/// How an engine chooses its chunks, as rows of results have it: "512" prompt tokens in every step,
/// "auto" at the balance of bytes and operations, or "auto:12ms" for a limit of step times.
std::string ChunkName(const EngineOptions& options);

/// For labels: ", chunks auto:12ms" where they are chosen, else nothing.
std::string ChunkLabel(const std::string& name);

/// Adds it under "chunk_tokens": a number where it is one.
void AddChunk(const std::string& name, JsonObject& object);

}  // namespace decant
