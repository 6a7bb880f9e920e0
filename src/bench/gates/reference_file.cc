#include <nlohmann/json.hpp>

#include "bench/gates/reference_gate.h"
#include "bench/json_lines.h"

namespace decant {
namespace {

using nlohmann::json;

constexpr int64_t kMaxVocab = int64_t{1} << 24;

/// Differences of the pairs in steps.top2_logit.
Expected<std::vector<float>> Gaps(const json& line, size_t steps) {
  const json* object = FindKey(line, "steps");
  const json* pairs = object == nullptr ? nullptr : FindKey(*object, "top2_logit");
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
  const json* object = FindKey(line, key);
  if (object == nullptr) return std::optional<ReferenceYardstick>();
  const json* steps = FindKey(*object, "steps");
  const json* rms = steps == nullptr ? nullptr : FindKey(*steps, "rms");
  if (rms == nullptr || !rms->is_number() || !(rms->get<double>() >= 0)) {
    return DataLoss("'{}.steps.rms' is not a number of 0 or more", key);
  }
  const json* flips = FindKey(*object, "flips");
  if (flips == nullptr || !flips->is_array()) return DataLoss("'{}.flips' is not a list", key);
  return std::optional(ReferenceYardstick{.rms = rms->get<double>(), .flips = !flips->empty()});
}

Status ReadHeader(const json& line, ReferenceFile& file) {
  DECANT_ASSIGN_OR_RETURN([[maybe_unused]] const int64_t version,
                          ReadInteger(FindKey(line, "golden"), "golden", 1, 1));
  DECANT_ASSIGN_OR_RETURN(file.model, ReadName(FindKey(line, "model"), "model"));
  DECANT_ASSIGN_OR_RETURN(const int64_t vocab,
                          ReadInteger(FindKey(line, "vocab"), "vocab", 1, kMaxVocab));
  file.vocab = static_cast<int32_t>(vocab);
  return Status();
}

Status ReadPrompt(const json& line, ReferenceFile& file) {
  ReferencePrompt prompt;
  DECANT_ASSIGN_OR_RETURN(prompt.name, ReadName(FindKey(line, "name"), "name"));
  DECANT_ASSIGN_OR_RETURN(prompt.prompt, ReadTokens(FindKey(line, "prompt"), "prompt", file.vocab));
  DECANT_ASSIGN_OR_RETURN(prompt.greedy, ReadTokens(FindKey(line, "greedy"), "greedy", file.vocab));
  DECANT_ASSIGN_OR_RETURN(prompt.gaps, Gaps(line, prompt.greedy.size()));
  if (const json* ill = FindKey(line, "ill_conditioned")) {
    if (!ill->is_boolean()) return DataLoss("'ill_conditioned' is neither true nor false");
    prompt.ill_conditioned = ill->get<bool>();
  }
  DECANT_ASSIGN_OR_RETURN(prompt.bf16, Yardstick(line, "bf16"));
  DECANT_ASSIGN_OR_RETURN(prompt.fp16, Yardstick(line, "fp16"));
  file.prompts.push_back(std::move(prompt));
  return Status();
}

}  // namespace

Expected<ReferenceFile> ReadReferenceFile(const std::filesystem::path& path) {
  ReferenceFile file;
  DECANT_RETURN_IF_ERROR(ForEachJsonLine(path, [&file](int64_t number, const json& line) {
    return number == 1 ? ReadHeader(line, file) : ReadPrompt(line, file);
  }));
  if (file.prompts.empty()) return DataLoss("{}: no prompt", path.string());
  return file;
}

}  // namespace decant
