#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// A JSON object that a model's folder holds, such as config.json, read with the care that
/// GgufMetadata takes: work and memory are bounded, and getters name the file and the key.
///
/// A key whose value is null counts as missing. Getters answer kNotFound where the key is missing
/// and kDataLoss where the value has another type or does not fit. The `...Or` forms give
/// `fallback` where the key is missing, but still refuse a wrong type. Copies share what they hold.
class JsonMetadata {
 public:
  static constexpr size_t kMaxBytes = size_t{2} << 20;
  static constexpr int kMaxDepth = 64;

  /// Reads the object in the file at `path`.
  static Expected<JsonMetadata> Open(const std::string& path);

  /// The object that `text` is; `source` names it in errors.
  static Expected<JsonMetadata> Parse(std::string source, std::string_view text);

  /// The name of the file.
  const std::string& source() const { return source_; }

  /// The key as errors call it: "rope_scaling.factor" in the object at rope_scaling.
  std::string KeyName(std::string_view key) const;

  /// The value at the key for a person, cut short; "nothing" where it is missing.
  std::string Describe(std::string_view key) const;

  bool Has(std::string_view key) const;
  bool IsNull(std::string_view key) const;  ///< It is there, as null.
  bool IsString(std::string_view key) const;
  bool IsObject(std::string_view key) const;
  /// Keys whose values are objects.
  std::vector<std::string> ObjectKeys() const;

  Expected<int32_t> GetI32(std::string_view key) const;
  Expected<double> GetF64(std::string_view key) const;  ///< Always finite.
  Expected<std::string> GetString(std::string_view key) const;
  Expected<int32_t> GetI32Or(std::string_view key, int32_t fallback) const;
  Expected<double> GetF64Or(std::string_view key, double fallback) const;
  Expected<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Expected<std::string> GetStringOr(std::string_view key, std::string_view fallback) const;

  /// The integers of a list; a lone integer is a list of one, a missing key an empty list.
  Expected<std::vector<int32_t>> GetI32List(std::string_view key) const;

  /// The strings of a list; empty where the key is missing.
  Expected<std::vector<std::string>> GetStringList(std::string_view key) const;

  Expected<JsonMetadata> GetObject(std::string_view key) const;

  /// The objects of a list.
  Expected<std::vector<JsonMetadata>> GetObjectList(std::string_view key) const;

 private:
  JsonMetadata(std::string source, std::string prefix,
               std::shared_ptr<const nlohmann::json> object);
  Expected<const nlohmann::json*> Require(std::string_view key) const;
  Status WrongType(std::string_view key, std::string_view wanted) const;

  std::string source_;
  std::string prefix_;                            ///< Of keys: "" or "rope_scaling."
  std::shared_ptr<const nlohmann::json> object_;  ///< Keeps the whole document.
};

}  // namespace decant
