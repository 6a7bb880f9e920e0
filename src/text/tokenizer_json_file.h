#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace decant {

/// A tokenizer.json as read: its two large tables flat, all else as a tree. For tokenizer_json.cc.
struct TokenizerJsonFile {
  static constexpr size_t kMaxDepth = 64;
  static constexpr size_t kMaxNodes = 2'000'000;  ///< Of `rest`.

  nlohmann::json rest;  ///< The file without model.vocab and model.merges.
  bool has_vocab = false;
  bool has_merges = false;
  std::vector<std::pair<std::string, uint32_t>> vocab;  ///< In order; spellings may occur twice.
  std::vector<std::pair<std::string, std::string>> merges;
};

/// DataLoss: no JSON, nested too deeply, too many values; a vocabulary that is not numbers below
/// 2^32 by string; merges that are neither "left right" nor pairs of strings.
Expected<TokenizerJsonFile> ReadTokenizerJsonFile(std::string_view json);

}  // namespace decant
