#include "server/prompt_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace decant {
namespace {

bool AllOf(const Json& list, bool (Json::*is)() const noexcept) {
  return std::ranges::all_of(list, [is](const Json& element) { return (element.*is)(); });
}

CallPrompt TextPrompt(const ApiModel& model, bool add_special, const Json& text,
                      ParameterReader& reader) {
  CallPrompt prompt{.text = text.get<std::string>()};
  if (model.TooManyBytes(prompt.text.size())) {
    reader.Fail(model.TooManyBytesError("prompt", prompt.text.size()));
  } else {
    prompt.tokens = model.Encode(prompt.text, add_special);
  }
  return prompt;
}

}  // namespace

std::vector<Token> ReadTokenIds(const ApiModel& model, std::string_view place, const Json& list,
                                ParameterReader& reader) {
  std::vector<Token> tokens;
  tokens.reserve(list.size());
  for (const Json& element : list) {
    const auto id = WholeNumber(element, 0, model.options().vocab_size - 1);
    if (!id) {
      reader.Fail(place,
                  fmt::format("'{}[{}]' is {}: it must be a token id from 0 to {}", place,
                              tokens.size(), Excerpt(element), model.options().vocab_size - 1));
      break;
    }
    tokens.push_back(static_cast<Token>(*id));
  }
  return tokens;
}

std::vector<CallPrompt> ReadPrompts(const ApiModel& model, bool add_special,
                                    ParameterReader& reader) {
  std::vector<CallPrompt> prompts;
  const Json* value = reader.Find("prompt");
  const bool list = value != nullptr && value->is_array() && !value->empty();
  if (value != nullptr && value->is_string()) {
    prompts.push_back(TextPrompt(model, add_special, *value, reader));
  } else if (list && AllOf(*value, &Json::is_number)) {
    prompts.push_back({.tokens = ReadTokenIds(model, "prompt", *value, reader)});
  } else if (list && value->size() <= kMaxPrompts && AllOf(*value, &Json::is_string)) {
    for (const Json& text : *value) prompts.push_back(TextPrompt(model, add_special, text, reader));
  } else if (list && value->size() <= kMaxPrompts && AllOf(*value, &Json::is_array)) {
    for (size_t i = 0; i < value->size(); ++i) {
      const std::string place = fmt::format("prompt[{}]", i);
      prompts.push_back({.tokens = ReadTokenIds(model, place, (*value)[i], reader)});
    }
  } else {
    reader.Fail("prompt",
                fmt::format("'prompt' must be a string, an array of token ids, or an array of 1 to "
                            "{} of either kind",
                            kMaxPrompts));
  }
  return prompts;
}

}  // namespace decant
