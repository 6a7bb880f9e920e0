#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_data.h"

namespace decant {

/// A section of a tokenizer.json, with its place for messages. For tokenizer_json.cc.
class JsonSection {
 public:
  /// `value` must outlive it.
  JsonSection(const nlohmann::json& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& place() const { return place_; }
  bool is_null() const { return value_->is_null(); }

  /// The member `key`; null if there is none.
  JsonSection Member(const std::string& key) const;
  /// DataLoss if it is not an array, naming the place.
  Expected<std::vector<JsonSection>> Elements() const;

  Expected<std::string> String() const;
  Expected<bool> Bool() const;
  Expected<uint32_t> Number() const;

  /// The same of a member; the fallback, if there is one, where it is absent or null.
  Expected<std::string> String(const std::string& key) const { return Member(key).String(); }
  Expected<bool> Bool(const std::string& key, std::optional<bool> fallback = std::nullopt) const;
  Expected<uint32_t> Number(const std::string& key) const { return Member(key).Number(); }

  /// kUnimplemented: "place: what ... is not supported".
  Status Unsupported(std::string_view what) const;

 private:
  Status Wrong(std::string_view wanted) const;

  const nlohmann::json* value_;
  std::string place_;
};

/// Tokens that a post-processor puts around a text.
struct AroundText {
  std::vector<int32_t> prefix;
  std::vector<int32_t> suffix;
};

// What a section says; nothing for null. Errors as ReadTokenizerJson, without the file's name.
Expected<std::vector<NormalizerStep>> ReadNormalizer(const JsonSection& section);
Expected<std::vector<SplitStep>> ReadPreTokenizer(const JsonSection& section);
Expected<std::vector<DecoderStep>> ReadDecoder(const JsonSection& section);
Expected<AroundText> ReadPostProcessor(const JsonSection& section);

}  // namespace decant
