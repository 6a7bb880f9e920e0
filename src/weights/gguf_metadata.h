#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// Types of metadata values; the numbers are the file format's own.
enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

/// "uint32", "string"...
std::string_view GgufValueTypeName(GgufValueType type);

/// The type with this number in a file, if there is one.
std::optional<GgufValueType> GgufValueTypeFromNumber(uint32_t number);

/// Bytes of one value of a type; 0 for strings and arrays, whose size varies.
size_t GgufScalarBytes(GgufValueType type);

/// One key and its value, still encoded. The views point into the file.
struct GgufEntry {
  std::string_view key;
  GgufValueType type = GgufValueType::kUint8;
  GgufValueType element_type = GgufValueType::kUint8;  ///< Of an array; else the same as type.
  uint64_t count = 1;                                  ///< Elements of an array; else 1.
  std::span<const std::byte> bytes;  ///< The encoded elements, checked to be whole.
};

/// The value for a person: 32, 1e-05, true, "text", or [string x 49152] "a", "b", ... Strings are
/// escaped and the whole is cut at about `max_chars` characters.
std::string DescribeValue(const GgufEntry& entry, size_t max_chars = 100);

/// The key/value part of a GGUF file.
///
/// Getters answer kNotFound where the key is missing and kDataLoss where the value has another type
/// or does not fit; both name the file and the key. An integer of any width and sign is taken where
/// its value fits. The `...Or` forms give `fallback` where the key is missing, but still refuse a
/// wrong type. Views point into the file and live as long as it does.
class GgufMetadata {
 public:
  GgufMetadata() = default;

  /// `source` names the file in errors. Keys must be distinct.
  GgufMetadata(std::string source, std::vector<GgufEntry> entries);

  /// In the order of the file.
  std::span<const GgufEntry> entries() const { return entries_; }

  /// Null where there is no such key.
  const GgufEntry* Find(std::string_view key) const;
  bool Has(std::string_view key) const { return Find(key) != nullptr; }

  Expected<int32_t> GetI32(std::string_view key) const;
  Expected<uint32_t> GetU32(std::string_view key) const;
  Expected<int64_t> GetI64(std::string_view key) const;
  Expected<uint64_t> GetU64(std::string_view key) const;
  Expected<float> GetF32(std::string_view key) const;  ///< float64 is rounded.
  Expected<bool> GetBool(std::string_view key) const;
  Expected<std::string_view> GetString(std::string_view key) const;  ///< Not checked to be UTF-8.

  Expected<int32_t> GetI32Or(std::string_view key, int32_t fallback) const;
  Expected<uint32_t> GetU32Or(std::string_view key, uint32_t fallback) const;
  Expected<float> GetF32Or(std::string_view key, float fallback) const;
  Expected<bool> GetBoolOr(std::string_view key, bool fallback) const;
  Expected<std::string_view> GetStringOr(std::string_view key, std::string_view fallback) const;

  Expected<std::vector<int32_t>> GetI32Array(std::string_view key) const;
  Expected<std::vector<uint32_t>> GetU32Array(std::string_view key) const;
  Expected<std::vector<float>> GetF32Array(std::string_view key) const;
  Expected<std::vector<bool>> GetBoolArray(std::string_view key) const;
  Expected<std::vector<std::string_view>> GetStringArray(std::string_view key) const;

 private:
  Expected<const GgufEntry*> Require(std::string_view key) const;
  Status WrongType(const GgufEntry& entry, std::string_view wanted) const;
  Expected<const GgufEntry*> RequireArray(std::string_view key, std::string_view wanted) const;
  template <typename To>
  Expected<To> GetInteger(std::string_view key) const;
  template <typename To>
  Expected<std::vector<To>> GetIntegerArray(std::string_view key) const;

  std::string source_;
  std::vector<GgufEntry> entries_;
  std::vector<uint32_t> by_key_;  ///< Indices of entries_, ordered by key.
};

}  // namespace decant
