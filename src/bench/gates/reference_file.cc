#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "bench/gates/reference_gate.h"

namespace decant {
namespace {

using nlohmann::json;

constexpr uintmax_t kMaxFile = uintmax_t{1} << 28;
constexpr int64_t kMaxVocab = int64_t{1} << 24;

const json* Find(const json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

Expected<int64_t> Integer(const json* value, std::string_view key, int64_t least, int64_t most) {
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

Expected<std::vector<Token>> Tokens(const json* value, std::string_view key, int32_t vocab) {
  if (value == nullptr || !value->is_array() || value->empty()) {
    return DataLoss("'{}' is not a list of ids", key);
  }
  std::vector<Token> tokens;
  for (const json& element : *value) {
    DECANT_ASSIGN_OR_RETURN(const int64_t id, Integer(&element, key, 0, vocab - 1));
    tokens.push_back(static_cast<Token>(id));
  }
  return tokens;
}

/// Differences of the pairs in steps.top2_logit.
Expected<std::vector<float>> Gaps(const json& line, size_t steps) {
  const json* object = Find(line, "steps");
  const json* pairs = object == nullptr ? nullptr : Find(*object, "top2_logit");
  if (pairs == nullptr || !pairs->is_array() || pairs->size() != steps) {
    return DataLoss("'steps.top2_logit' is not a list of {} pairs", steps);
  }
  std::vector<float> gaps;
  for (const json& pair : *pairs) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number() || !pair[1].is_number()) {
      return DataLoss("'steps.top2_logit' has an element that is no pair of numbers");
    }
    gaps.push_back(static_cast<float>(pair[0].get<double>() - pair[1].get<double>()));
    if (!(gaps.back() >= 0)) return DataLoss("'steps.top2_logit' has the smaller logit first");
  }
  return gaps;
}

/// The part of `line` under `key`: {"steps": {"rms": number}, "flips": [...]}.
Expected<std::optional<ReferenceYardstick>> Yardstick(const json& line, std::string_view key) {
  const json* object = Find(line, key);
  if (object == nullptr) return std::optional<ReferenceYardstick>();
  const json* steps = Find(*object, "steps");
  const json* rms = steps == nullptr ? nullptr : Find(*steps, "rms");
  if (rms == nullptr || !rms->is_number() || !(rms->get<double>() >= 0)) {
    return DataLoss("'{}.steps.rms' is not a number of 0 or more", key);
  }
  const json* flips = Find(*object, "flips");
  if (flips == nullptr || !flips->is_array()) return DataLoss("'{}.flips' is not a list", key);
  return std::optional(ReferenceYardstick{.rms = rms->get<double>(), .flips = !flips->empty()});
}

Status ReadHeader(const json& line, ReferenceFile& file) {
  DECANT_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t version,
                          Integer(Find(line, "golden"), "golden", 1, 1));
  const json* model = Find(line, "model");
  if (model == nullptr || !model->is_string()) return DataLoss("'model' is not a name");
  file.model = model->get<std::string>();
  DECANT_ASSIGN_OR_RETURN(const int64_t vocab, Integer(Find(line, "vocab"), "vocab", 1, kMaxVocab));
  file.vocab = static_cast<int32_t>(vocab);
  return Status();
}

Status ReadPrompt(const json& line, ReferenceFile& file) {
  ReferencePrompt prompt;
  const json* name = Find(line, "name");
  if (name == nullptr || !name->is_string()) return DataLoss("'name' is not a name");
  prompt.name = name->get<std::string>();
  DECANT_ASSIGN_OR_RETURN(prompt.prompt, Tokens(Find(line, "prompt"), "prompt", file.vocab));
  DECANT_ASSIGN_OR_RETURN(prompt.greedy, Tokens(Find(line, "greedy"), "greedy", file.vocab));
  DECANT_ASSIGN_OR_RETURN(prompt.gaps, Gaps(line, prompt.greedy.size()));
  if (const json* ill = Find(line, "ill_conditioned")) {
    if (!ill->is_boolean()) return DataLoss("'ill_conditioned' is neither true nor false");
    prompt.ill_conditioned = ill->get<bool>();
  }
  DECANT_ASSIGN_OR_RETURN(prompt.bf16, Yardstick(line, "bf16"));
  DECANT_ASSIGN_OR_RETURN(prompt.fp16, Yardstick(line, "fp16"));
  file.prompts.push_back(std::move(prompt));
  return Status();
}

/// Nested deeper than a golden file ever is, a document could exhaust the stack when it dies.
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

Expected<ReferenceFile> ReadReferenceFile(const std::filesystem::path& path) {
  std::ifstream stream(path);
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (!stream || error) return Error(StatusCode::kNotFound, "{}: cannot be read", path.string());
  if (size > kMaxFile) return DataLoss("{}: over {} bytes", path.string(), kMaxFile);
  ReferenceFile file;
  int64_t number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const std::string where = fmt::format("{}, line {}", path.string(), number);
    const json object = ParseShallow(line);
    if (object.is_discarded()) return DataLoss("{}: no JSON", where);
    const Status status = number == 1 ? ReadHeader(object, file) : ReadPrompt(object, file);
    if (!status.ok()) return status.WithContext(where);
  }
  if (file.prompts.empty()) return DataLoss("{}: no prompt", path.string());
  return file;
}

}  // namespace decant
