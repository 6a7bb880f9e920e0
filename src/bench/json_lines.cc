#include "bench/json_lines.h"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

namespace decant {
namespace {

using nlohmann::json;

constexpr uintmax_t kMaxFile = uintmax_t{1} << 28;

/// Nested deeper than a line of results ever is, a document could exhaust the stack when it dies.
json ParseShallow(const std::string& text) {
  constexpr int kMaxDepth = 8;
  bool too_deep = false;
  json parsed = json::parse(
      text,
      [&too_deep](int depth, json::parse_event_t, json&) {
        too_deep = too_deep || depth > kMaxDepth;
        return depth <= kMaxDepth;
      },
      false);
  return too_deep ? json(json::value_t::discarded) : parsed;
}

}  // namespace

const json* FindKey(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

Expected<int64_t> ReadInteger(const json* value, std::string_view key, int64_t least,
                              int64_t most) {
  if (value == nullptr || !value->is_number_integer()) {
    return DataLoss("'{}' is not a whole number", key);
  }
  // A number past int64 is unsigned and compares as such.
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(most)) {
    return DataLoss("'{}' is over {}", key, most);
  }
  const auto number = value->get<int64_t>();
  if (number < least || number > most) {
    return DataLoss("'{}' is {}; allowed: {} to {}", key, number, least, most);
  }
  return number;
}

Expected<std::vector<Token>> ReadTokens(const json* value, std::string_view key, int32_t vocab) {
  if (value == nullptr || !value->is_array() || value->empty()) {
    return DataLoss("'{}' is not a list of ids", key);
  }
  std::vector<Token> tokens;
  tokens.reserve(value->size());
  for (const json& element : *value) {
    DECANT_ASSIGN_OR_RETURN(const int64_t id, ReadInteger(&element, key, 0, vocab - 1));
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

Expected<std::string> ReadName(const json* value, std::string_view key) {
  if (value == nullptr || !value->is_string()) return DataLoss("'{}' is not a name", key);
  return value->get<std::string>();
}

Status ForEachJsonLine(const std::filesystem::path& path,
                       const std::function<Status(int64_t number, const json& line)>& take) {
  std::ifstream stream(path);
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!stream || error) return Error(StatusCode::kNotFound, "{}: cannot be read", path.string());
  if (size > kMaxFile) return DataLoss("{}: over {} bytes", path.string(), kMaxFile);
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string where = fmt::format("{}, line {}", path.string(), number);
    const json object = ParseShallow(line);
    if (object.is_discarded()) return DataLoss("{}: no JSON", where);
    if (const Status status = take(number, object); !status.ok()) return status.WithContext(where);
  }
  return Status();
}

}  // namespace decant
