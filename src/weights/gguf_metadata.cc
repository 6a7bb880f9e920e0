#include "weights/gguf_metadata.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

template <typename T>
T Load(const std::byte* src) {
  T value{};
  std::memcpy(&value, src, sizeof(value));
  return value;
}

// Calls f with the integer of `type` at `src`, in its own type; false where `type` is no integer.
template <typename F>
bool VisitInteger(GgufValueType type, const std::byte* src, F&& f) {
  switch (type) {
    case GgufValueType::kUint8:
      return f(Load<uint8_t>(src)), true;
    case GgufValueType::kInt8:
      return f(Load<int8_t>(src)), true;
    case GgufValueType::kUint16:
      return f(Load<uint16_t>(src)), true;
    case GgufValueType::kInt16:
      return f(Load<int16_t>(src)), true;
    case GgufValueType::kUint32:
      return f(Load<uint32_t>(src)), true;
    case GgufValueType::kInt32:
      return f(Load<int32_t>(src)), true;
    case GgufValueType::kUint64:
      return f(Load<uint64_t>(src)), true;
    case GgufValueType::kInt64:
      return f(Load<int64_t>(src)), true;
    case GgufValueType::kFloat32:
    case GgufValueType::kBool:
    case GgufValueType::kString:
    case GgufValueType::kArray:
    case GgufValueType::kFloat64:
      return false;
  }
  return false;
}

bool IsInteger(GgufValueType type) {
  constexpr std::byte kZeros[8] = {};
  return VisitInteger(type, kZeros, [](auto) {});
}

bool IsFloat(GgufValueType type) {
  return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64;
}

float LoadFloat(GgufValueType type, const std::byte* src) {
  return type == GgufValueType::kFloat32 ? Load<float>(src) : static_cast<float>(Load<double>(src));
}

// The string at `position` of a checked value; moves `position` past it.
std::string_view NextString(std::span<const std::byte> bytes, size_t& position) {
  const auto length = Load<uint64_t>(bytes.data() + position);
  const auto* text = reinterpret_cast<const char*>(bytes.data() + position + sizeof(length));
  position += sizeof(length) + length;
  return {text, length};
}

std::string TypeOf(const GgufEntry& entry) {
  if (entry.type != GgufValueType::kArray) return std::string(GgufValueTypeName(entry.type));
  return fmt::format("array of {}", GgufValueTypeName(entry.element_type));
}

void AppendQuoted(std::string_view text, size_t max_chars, std::string& out) {
  out += '"';
  for (const char c : text.substr(0, max_chars)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += text.size() > max_chars ? "..." : "\"";
}

void AppendScalar(GgufValueType type, const std::byte* src, std::string& out) {
  const auto append = [&](auto value) { fmt::format_to(std::back_inserter(out), "{}", value); };
  if (VisitInteger(type, src, [&](auto value) { append(+value); })) return;
  if (type == GgufValueType::kBool) append(Load<uint8_t>(src) != 0);
  if (type == GgufValueType::kFloat32) append(Load<float>(src));
  if (type == GgufValueType::kFloat64) append(Load<double>(src));
}

}  // namespace

std::string_view GgufValueTypeName(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
      return "uint8";
    case GgufValueType::kInt8:
      return "int8";
    case GgufValueType::kUint16:
      return "uint16";
    case GgufValueType::kInt16:
      return "int16";
    case GgufValueType::kUint32:
      return "uint32";
    case GgufValueType::kInt32:
      return "int32";
    case GgufValueType::kFloat32:
      return "float32";
    case GgufValueType::kBool:
      return "bool";
    case GgufValueType::kString:
      return "string";
    case GgufValueType::kArray:
      return "array";
    case GgufValueType::kUint64:
      return "uint64";
    case GgufValueType::kInt64:
      return "int64";
    case GgufValueType::kFloat64:
      return "float64";
  }
  return "unknown";
}

std::optional<GgufValueType> GgufValueTypeFromNumber(uint32_t number) {
  if (number > static_cast<uint32_t>(GgufValueType::kFloat64)) return std::nullopt;
  return static_cast<GgufValueType>(number);
}

size_t GgufScalarBytes(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return 0;
  }
  return 0;
}

std::string DescribeValue(const GgufEntry& entry, size_t max_chars) {
  std::string out;
  if (entry.type == GgufValueType::kArray) {
    out = fmt::format("[{} x {}]", GgufValueTypeName(entry.element_type), entry.count);
  }
  size_t position = 0;
  for (uint64_t i = 0; i < entry.count; ++i) {
    if (entry.type == GgufValueType::kArray) out += i == 0 ? " " : ", ";
    if (out.size() >= max_chars) {
      out += "...";
      break;
    }
    if (entry.element_type == GgufValueType::kString) {
      AppendQuoted(NextString(entry.bytes, position), max_chars - out.size(), out);
    } else {
      AppendScalar(entry.element_type, entry.bytes.data() + position, out);
      position += GgufScalarBytes(entry.element_type);
    }
  }
  return out;
}

GgufMetadata::GgufMetadata(std::string source, std::vector<GgufEntry> entries)
    : source_(std::move(source)), entries_(std::move(entries)), by_key_(entries_.size()) {
  std::iota(by_key_.begin(), by_key_.end(), 0u);
  std::ranges::sort(by_key_, {}, [this](uint32_t index) { return entries_[index].key; });
}

const GgufEntry* GgufMetadata::Find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(
      by_key_, key, {}, [this](uint32_t index) { return entries_[index].key; });
  if (found == by_key_.end() || entries_[*found].key != key) return nullptr;
  return &entries_[*found];
}

Expected<const GgufEntry*> GgufMetadata::Require(std::string_view key) const {
  const GgufEntry* entry = Find(key);
  if (entry == nullptr) return Error(StatusCode::kNotFound, "{}: no key '{}'", source_, key);
  return entry;
}

Status GgufMetadata::WrongType(const GgufEntry& entry, std::string_view wanted) const {
  return DataLoss("{}: key '{}' is {}, not {}", source_, entry.key, TypeOf(entry), wanted);
}

Expected<const GgufEntry*> GgufMetadata::RequireArray(std::string_view key,
                                                      std::string_view wanted) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(key));
  if (entry->type != GgufValueType::kArray) return WrongType(*entry, wanted);
  return entry;
}

template <typename To>
Expected<To> GgufMetadata::GetInteger(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(key));
  std::optional<To> fitting;
  const bool is_integer = VisitInteger(entry->type, entry->bytes.data(), [&](auto value) {
    if (std::in_range<To>(value)) fitting = static_cast<To>(value);
  });
  if (!is_integer) return WrongType(*entry, "an integer");
  if (!fitting) {
    return DataLoss("{}: key '{}' is {}, outside {} to {}", source_, key, DescribeValue(*entry),
                    std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
  }
  return *fitting;
}

template <typename To>
Expected<std::vector<To>> GgufMetadata::GetIntegerArray(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(key, "an array of integers"));
  if (!IsInteger(entry->element_type)) return WrongType(*entry, "an array of integers");
  std::vector<To> values;
  values.reserve(entry->count);
  const size_t stride = GgufScalarBytes(entry->element_type);
  for (size_t i = 0; i < entry->count; ++i) {
    VisitInteger(entry->element_type, entry->bytes.data() + i * stride, [&](auto value) {
      if (std::in_range<To>(value)) values.push_back(static_cast<To>(value));
    });
    if (values.size() <= i) {
      return DataLoss("{}: element {} of key '{}' is outside {} to {}", source_, i, key,
                      std::numeric_limits<To>::min(), std::numeric_limits<To>::max());
    }
  }
  return values;
}

Expected<int32_t> GgufMetadata::GetI32(std::string_view key) const {
  return GetInteger<int32_t>(key);
}
Expected<uint32_t> GgufMetadata::GetU32(std::string_view key) const {
  return GetInteger<uint32_t>(key);
}
Expected<int64_t> GgufMetadata::GetI64(std::string_view key) const {
  return GetInteger<int64_t>(key);
}
Expected<uint64_t> GgufMetadata::GetU64(std::string_view key) const {
  return GetInteger<uint64_t>(key);
}

Expected<float> GgufMetadata::GetF32(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(key));
  if (!IsFloat(entry->type)) return WrongType(*entry, "a float");
  return LoadFloat(entry->type, entry->bytes.data());
}

Expected<bool> GgufMetadata::GetBool(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(key));
  if (entry->type != GgufValueType::kBool) return WrongType(*entry, "a bool");
  return Load<uint8_t>(entry->bytes.data()) != 0;
}

Expected<std::string_view> GgufMetadata::GetString(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, Require(key));
  if (entry->type != GgufValueType::kString) return WrongType(*entry, "a string");
  size_t position = 0;
  return NextString(entry->bytes, position);
}

Expected<int32_t> GgufMetadata::GetI32Or(std::string_view key, int32_t fallback) const {
  return Has(key) ? GetI32(key) : Expected<int32_t>(fallback);
}
Expected<uint32_t> GgufMetadata::GetU32Or(std::string_view key, uint32_t fallback) const {
  return Has(key) ? GetU32(key) : Expected<uint32_t>(fallback);
}
Expected<float> GgufMetadata::GetF32Or(std::string_view key, float fallback) const {
  return Has(key) ? GetF32(key) : Expected<float>(fallback);
}
Expected<bool> GgufMetadata::GetBoolOr(std::string_view key, bool fallback) const {
  return Has(key) ? GetBool(key) : Expected<bool>(fallback);
}
Expected<std::string_view> GgufMetadata::GetStringOr(std::string_view key,
                                                     std::string_view fallback) const {
  return Has(key) ? GetString(key) : Expected<std::string_view>(fallback);
}

Expected<std::vector<int32_t>> GgufMetadata::GetI32Array(std::string_view key) const {
  return GetIntegerArray<int32_t>(key);
}
Expected<std::vector<uint32_t>> GgufMetadata::GetU32Array(std::string_view key) const {
  return GetIntegerArray<uint32_t>(key);
}

Expected<std::vector<float>> GgufMetadata::GetF32Array(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(key, "an array of floats"));
  if (!IsFloat(entry->element_type)) return WrongType(*entry, "an array of floats");
  std::vector<float> values(entry->count);
  const size_t stride = GgufScalarBytes(entry->element_type);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadFloat(entry->element_type, entry->bytes.data() + i * stride);
  }
  return values;
}

Expected<std::vector<bool>> GgufMetadata::GetBoolArray(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(key, "an array of bools"));
  if (entry->element_type != GgufValueType::kBool) return WrongType(*entry, "an array of bools");
  std::vector<bool> values(entry->count);
  for (size_t i = 0; i < values.size(); ++i) values[i] = entry->bytes[i] != std::byte{0};
  return values;
}

Expected<std::vector<std::string_view>> GgufMetadata::GetStringArray(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const GgufEntry* entry, RequireArray(key, "an array of strings"));
  if (entry->element_type != GgufValueType::kString) {
    return WrongType(*entry, "an array of strings");
  }
  std::vector<std::string_view> values;
  values.reserve(entry->count);
  size_t position = 0;
  for (uint64_t i = 0; i < entry->count; ++i) values.push_back(NextString(entry->bytes, position));
  return values;
}

}  // namespace decant
