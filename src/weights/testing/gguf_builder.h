#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "weights/ggml_type.h"
#include "weights/gguf_metadata.h"
#include "weights/testing/pack.h"

namespace decant::testing {

namespace internal {
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
}  // namespace internal

/// Makes GGUF files for tests: tiny models, and files that are wrong in a chosen way.
///
///   GgufBuilder builder;
///   builder.Set("general.architecture", "llama")
///       .Set("llama.block_count", 2u)
///       .Set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"})
///       .AddRandomTensor("token_embd.weight", {64, 100}, GgmlType::kQ8_0, 1)
///       .AddTensor("output_norm.weight", {64}, GgmlType::kF32, ones);
///   builder.WriteTo(path);  // or GgufFile::FromBytes("tiny", builder.Build())
///
/// Keys and tensors come out in the order they were added. Setting a key again replaces its value.
class GgufBuilder {
 public:
  /// A tensor whose every field is the caller's choice, right or wrong.
  struct RawTensor {
    std::string name;
    std::vector<uint64_t> dims;
    uint32_t type = 0;
    std::vector<std::byte> data;
    std::optional<uint64_t> offset;  ///< Else where its data really are.
    std::optional<uint32_t> rank;    ///< Else dims.size().
  };

  /// A bool, a number, a text, or a std::vector of one of them. The file's type is the C++ one:
  /// 5 is an int32, 5u a uint32, 0.5f a float32, 0.5 a float64.
  template <typename T>
  GgufBuilder& Set(std::string_view key, const T& value) {
    if constexpr (internal::kIsVector<T>) {
      std::vector<std::byte> bytes;
      AppendBytes(bytes, static_cast<uint32_t>(TypeFor<typename T::value_type>()));
      AppendBytes(bytes, static_cast<uint64_t>(value.size()));
      for (const auto& element : value) AppendValue<typename T::value_type>(bytes, element);
      return SetRaw(key, static_cast<uint32_t>(GgufValueType::kArray), std::move(bytes));
    } else {
      std::vector<std::byte> bytes;
      AppendValue<T>(bytes, value);
      return SetRaw(key, static_cast<uint32_t>(TypeFor<T>()), std::move(bytes));
    }
  }

  /// A key with any type number and any bytes as its encoded value.
  GgufBuilder& SetRaw(std::string_view key, uint32_t type, std::vector<std::byte> value);

  /// Adds an entry even where its key is there already.
  GgufBuilder& AddDuplicateKey(std::string_view key, uint32_t type, std::vector<std::byte> value);

  /// Takes a key out again; nothing where there is none.
  GgufBuilder& Unset(std::string_view key);

  /// Values in order, quantised to `type` (those of Quantize); dims[0] is the fastest.
  GgufBuilder& AddTensor(std::string_view name, std::vector<int64_t> dims, GgmlType type,
                         std::span<const float> values);

  /// Values uniform in [-scale, scale], a function of `seed`.
  GgufBuilder& AddRandomTensor(std::string_view name, std::vector<int64_t> dims, GgmlType type,
                               uint64_t seed, float scale = 0.1f);

  GgufBuilder& AddRawTensor(RawTensor tensor);

  /// Sets general.alignment and lays the data out so (default: 32, without the key).
  GgufBuilder& SetAlignment(uint32_t alignment);

  GgufBuilder& OverrideMagic(uint32_t magic);
  GgufBuilder& SetVersion(uint32_t version);
  GgufBuilder& OverrideKeyCount(uint64_t count);
  GgufBuilder& OverrideTensorCount(uint64_t count);

  /// The file. Its last byte is the last byte of the last tensor's data.
  std::vector<std::byte> Build() const;

  /// Where each field of header, keys and tensor list starts in Build()'s bytes, and where the data
  /// start, in order.
  std::vector<size_t> FieldStarts() const;

  /// Writes Build() to a file; aborts where that fails.
  void WriteTo(const std::string& path) const;

 private:
  struct RawEntry {
    std::string key;
    uint32_t type;
    std::vector<std::byte> value;
  };

  struct Layout {
    std::vector<std::byte> bytes;
    std::vector<size_t> field_starts;
  };

  template <typename T>
  static constexpr GgufValueType TypeFor() {
    if constexpr (std::is_same_v<T, bool>) {
      return GgufValueType::kBool;
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      return GgufValueType::kString;
    } else if constexpr (std::is_same_v<T, float>) {
      return GgufValueType::kFloat32;
    } else if constexpr (std::is_same_v<T, double>) {
      return GgufValueType::kFloat64;
    } else if constexpr (sizeof(T) == 1) {
      return std::is_signed_v<T> ? GgufValueType::kInt8 : GgufValueType::kUint8;
    } else if constexpr (sizeof(T) == 2) {
      return std::is_signed_v<T> ? GgufValueType::kInt16 : GgufValueType::kUint16;
    } else if constexpr (sizeof(T) == 4) {
      return std::is_signed_v<T> ? GgufValueType::kInt32 : GgufValueType::kUint32;
    } else {
      static_assert(std::is_integral_v<T> && sizeof(T) == 8, "no metadata type for this");
      return std::is_signed_v<T> ? GgufValueType::kInt64 : GgufValueType::kUint64;
    }
  }

  template <typename T>
  static void AppendValue(std::vector<std::byte>& out, const T& value) {
    if constexpr (std::convertible_to<const T&, std::string_view>) {
      const std::string_view text = value;
      AppendBytes(out, static_cast<uint64_t>(text.size()));
      AppendBytes(out, text);
    } else {
      AppendBytes(out, value);
    }
  }

  Layout LayOut() const;

  std::optional<uint32_t> magic_;
  uint32_t version_ = 3;
  uint32_t alignment_ = 32;
  std::optional<uint64_t> key_count_;
  std::optional<uint64_t> tensor_count_;
  std::vector<RawEntry> entries_;
  std::vector<RawTensor> tensors_;
};

}  // namespace decant::testing
