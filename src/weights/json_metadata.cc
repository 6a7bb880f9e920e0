#include "weights/json_metadata.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "weights/mapped_file.h"

namespace decant {
namespace {

using nlohmann::json;

/// The deepest nesting of brackets outside strings, so that a parser can be spared the rest.
int NestingDepth(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

bool FitsI32(const json& value) {
  if (value.is_number_unsigned()) return std::in_range<int32_t>(value.get<uint64_t>());
  return value.is_number_integer() && std::in_range<int32_t>(value.get<int64_t>());
}

}  // namespace

JsonMetadata::JsonMetadata(std::string source, std::string prefix,
                           std::shared_ptr<const json> object)
    : source_(std::move(source)), prefix_(std::move(prefix)), object_(std::move(object)) {}

Expected<JsonMetadata> JsonMetadata::Open(const std::string& path) {
  DECANT_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return Parse(path, {reinterpret_cast<const char*>(file.bytes().data()), file.size()});
}

Expected<JsonMetadata> JsonMetadata::Parse(std::string source, std::string_view text) {
  if (text.size() > kMaxBytes) {
    return DataLoss("{}: {} bytes of JSON; at most {} are read", source, text.size(), kMaxBytes);
  }
  if (const int depth = NestingDepth(text); depth > kMaxDepth) {
    return DataLoss("{}: JSON nested {} deep; at most {} is read", source, depth, kMaxDepth);
  }
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return DataLoss("{}: not valid JSON", source);
  if (!value.is_object()) return DataLoss("{}: not a JSON object", source);
  return JsonMetadata(std::move(source), "", std::make_shared<const json>(std::move(value)));
}

std::string JsonMetadata::KeyName(std::string_view key) const { return prefix_ + std::string(key); }

std::string JsonMetadata::Describe(std::string_view key) const {
  constexpr size_t kMaxChars = 80;
  if (!Has(key)) return "nothing";
  std::string text = (*object_)[std::string(key)].dump(-1, ' ', /*ensure_ascii=*/true,
                                                       json::error_handler_t::replace);
  if (text.size() > kMaxChars) text = text.substr(0, kMaxChars) + "...";
  return text;
}

bool JsonMetadata::Has(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

bool JsonMetadata::IsNull(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_null();
}

bool JsonMetadata::IsString(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_string();
}

bool JsonMetadata::IsObject(std::string_view key) const {
  const auto found = object_->find(key);
  return found != object_->end() && found->is_object();
}

std::vector<std::string> JsonMetadata::ObjectKeys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object_->items()) {
    if (value.is_object()) keys.push_back(key);
  }
  return keys;
}

Status JsonMetadata::WrongType(std::string_view key, std::string_view wanted) const {
  return DataLoss("{}: {} is {}, not {}", source_, KeyName(key), Describe(key), wanted);
}

Expected<const json*> JsonMetadata::Require(std::string_view key) const {
  if (!Has(key)) return Error(StatusCode::kNotFound, "{}: no key {}", source_, KeyName(key));
  return &*object_->find(key);
}

Expected<int32_t> JsonMetadata::GetI32(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!FitsI32(*value)) return WrongType(key, "a 32-bit integer");
  return value->get<int32_t>();
}

Expected<double> JsonMetadata::GetF64(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    return WrongType(key, "a finite number");
  }
  return value->get<double>();
}

Expected<std::string> JsonMetadata::GetString(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_string()) return WrongType(key, "a string");
  return value->get<std::string>();
}

Expected<int32_t> JsonMetadata::GetI32Or(std::string_view key, int32_t fallback) const {
  if (!Has(key)) return fallback;
  return GetI32(key);
}

Expected<double> JsonMetadata::GetF64Or(std::string_view key, double fallback) const {
  if (!Has(key)) return fallback;
  return GetF64(key);
}

Expected<bool> JsonMetadata::GetBoolOr(std::string_view key, bool fallback) const {
  if (!Has(key)) return fallback;
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_boolean()) return WrongType(key, "true or false");
  return value->get<bool>();
}

Expected<std::string> JsonMetadata::GetStringOr(std::string_view key,
                                                std::string_view fallback) const {
  if (!Has(key)) return std::string(fallback);
  return GetString(key);
}

Expected<std::vector<int32_t>> JsonMetadata::GetI32List(std::string_view key) const {
  if (!Has(key)) return std::vector<int32_t>();
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (FitsI32(*value)) return std::vector<int32_t>{value->get<int32_t>()};
  if (!value->is_array() || !std::ranges::all_of(*value, FitsI32)) {
    return WrongType(key, "a 32-bit integer or a list of them");
  }
  return value->get<std::vector<int32_t>>();
}

Expected<std::vector<std::string>> JsonMetadata::GetStringList(std::string_view key) const {
  if (!Has(key)) return std::vector<std::string>();
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_array() ||
      !std::ranges::all_of(*value, [](const json& element) { return element.is_string(); })) {
    return WrongType(key, "a list of strings");
  }
  return value->get<std::vector<std::string>>();
}

Expected<JsonMetadata> JsonMetadata::GetObject(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_object()) return WrongType(key, "an object");
  return JsonMetadata(source_, KeyName(key) + ".", std::shared_ptr<const json>(object_, value));
}

Expected<std::vector<JsonMetadata>> JsonMetadata::GetObjectList(std::string_view key) const {
  DECANT_ASSIGN_OR_RETURN(const json* value, Require(key));
  if (!value->is_array()) return WrongType(key, "a list of objects");
  std::vector<JsonMetadata> objects;
  for (const json& element : *value) {
    if (!element.is_object()) return WrongType(key, "a list of objects");
    objects.push_back(JsonMetadata(source_, fmt::format("{}[{}].", KeyName(key), objects.size()),
                                   std::shared_ptr<const json>(object_, &element)));
  }
  return objects;
}

}  // namespace decant
