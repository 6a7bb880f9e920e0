#include "text/chat_prompt.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/utf8.h"

namespace decant {
namespace {

using Json = nlohmann::ordered_json;

/// Unicode's noncharacters U+FDD0 to U+FDEF, "never to be interchanged".
constexpr char32_t kFirstGuard = 0xFDD0;
constexpr char32_t kLastGuard = 0xFDEF;

/// ChatTemplate refuses what is deeper than 50.
constexpr int kMaxDepth = 64;

/// A noncharacter that none of the texts has.
Expected<std::string> ChooseGuard(std::initializer_list<std::string_view> texts) {
  for (char32_t guard = kFirstGuard; guard <= kLastGuard; ++guard) {
    std::string utf8;
    AppendUtf8(guard, utf8);
    // JSON may spell it as an escape, in either case.
    const std::string lower = fmt::format("\\u{:04x}", static_cast<uint32_t>(guard));
    const std::string upper = fmt::format("\\u{:04X}", static_cast<uint32_t>(guard));
    bool used = false;
    for (const std::string_view text : texts) {
      for (const std::string_view spelling :
           {std::string_view(utf8), std::string_view(lower), std::string_view(upper)}) {
        used = used || text.find(spelling) != std::string_view::npos;
      }
    }
    if (!used) return utf8;
  }
  return InvalidArgument("the conversation uses every noncharacter from U+FDD0 to U+FDEF");
}

/// Puts `guard` behind the first code point of each control token's name in `text`.
std::string GuardText(const AddedTokens& control_tokens, std::string_view text,
                      std::string_view guard) {
  std::string out;
  AddedTokens::Sections sections(control_tokens, text, SpecialTokens::kParse);
  while (const std::optional<AddedTokens::Section> section = sections.Next()) {
    const std::string_view part = text.substr(section->begin, section->end - section->begin);
    const size_t head = section->id ? ReadUtf8(part).length : part.size();
    out += part.substr(0, head);
    if (section->id) out += guard;
    out += part.substr(head);
  }
  return out;
}

/// False, having stopped half-way, for what is nested too deep.
bool GuardStrings(const AddedTokens& control_tokens, std::string_view guard, int depth,
                  Json& value) {
  if (depth > kMaxDepth) return false;
  if (value.is_string()) {
    value = GuardText(control_tokens, value.get_ref<const std::string&>(), guard);
  } else if (value.is_structured()) {
    for (Json& element : value) {
      if (!GuardStrings(control_tokens, guard, depth + 1, element)) return false;
    }
  }
  return true;
}

}  // namespace

Expected<ChatPrompter> ChatPrompter::Create(std::string_view template_source,
                                            ChatTemplateOptions options,
                                            std::shared_ptr<const Tokenizer> tokenizer) {
  DECANT_ASSIGN_OR_RETURN(ChatTemplate chat_template,
                          ChatTemplate::Create(template_source, std::move(options)));
  std::vector<AddedTokens::Token> control;
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    if (!tokenizer->is_control(id) || tokenizer->Spelling(id).empty()) continue;
    control.push_back(
        {.text = std::string(tokenizer->Spelling(id)), .rule = {.id = id}, .control = true});
  }
  DECANT_ASSIGN_OR_RETURN(AddedTokens control_tokens, AddedTokens::Create(std::move(control)));
  return ChatPrompter(std::move(chat_template), std::move(control_tokens), std::move(tokenizer));
}

Expected<std::string> ChatPrompter::Guard(std::string_view json, std::string_view guard) const {
  // What is no JSON, or too deep, is the template's to refuse, in its words.
  Json value = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() || !GuardStrings(control_tokens_, guard, 0, value)) {
    return std::string(json);
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Expected<ChatPrompt> ChatPrompter::Render(std::string_view messages_json,
                                          const ChatRenderOptions& options) const {
  DECANT_ASSIGN_OR_RETURN(const std::string guard,
                          ChooseGuard({messages_json, options.tools_json, options.variables_json}));
  DECANT_ASSIGN_OR_RETURN(const std::string messages, Guard(messages_json, guard));
  ChatRenderOptions guarded = options;
  std::string tools;
  if (!options.tools_json.empty()) {
    DECANT_ASSIGN_OR_RETURN(tools, Guard(options.tools_json, guard));
    guarded.tools_json = tools;
  }
  DECANT_ASSIGN_OR_RETURN(const std::string rendered, template_.Render(messages, guarded));

  ChatPrompt prompt;
  std::vector<TextRange> as_text;
  size_t begin = 0;
  for (size_t at = rendered.find(guard); at != std::string::npos;
       at = rendered.find(guard, begin)) {
    prompt.text.append(rendered, begin, at - begin);
    // The byte before stands inside the name that the guard broke.
    if (!prompt.text.empty()) as_text.push_back({prompt.text.size() - 1, prompt.text.size()});
    begin = at + guard.size();
  }
  prompt.text.append(rendered, begin);
  prompt.tokens = tokenizer_->EncodePrompt(prompt.text, as_text);
  return prompt;
}

}  // namespace decant
