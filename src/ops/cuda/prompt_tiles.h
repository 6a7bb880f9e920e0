#pragma once

#include <cstdint>

namespace decant {

/// Query rows of one tile of the prompt kernel: the query heads of a KV head and the chunk's tokens
/// are packed together, row = token * group + head in group.
inline constexpr int32_t kPromptTileRows = 64;

/// How many tiles a chunk of `query_len` tokens takes for one KV head.
inline int32_t PromptTiles(int32_t query_len, int32_t group) {
  return (query_len * group + kPromptTileRows - 1) / kPromptTileRows;
}

}  // namespace decant
