// A chat template, messages, tools and variables, with the separator between them. A rendering ends
// within its limits, always in the same text or error; JSON that is read and written reads the
// same.

#include <string>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "jinja/budget.h"
#include "jinja/json.h"
#include "text/chat_template.h"
#include "text/utf8.h"

namespace decant {
namespace {

constexpr jinja::RenderLimits kLimits = {
    .steps = 20'000, .work_bytes = 1u << 20, .output_bytes = 64u << 10};
constexpr std::string_view kMessages =
    R"([{"role": "user", "content": "Hé"}, {"role": "assistant", "content": "a"}])";

std::tm FixedTime() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mday = 26;
  return time;
}

void CheckError(const Status& status) {
  DECANT_CHECK(status.code() == StatusCode::kInvalidArgument ||
                   status.code() == StatusCode::kUnimplemented ||
                   status.code() == StatusCode::kResourceExhausted,
               "{}", status.ToString());
  DECANT_CHECK(IsUtf8(status.message()), "a message that is not UTF-8");
}

void CheckJson(std::string_view text) {
  const Expected<jinja::Value> value = jinja::ParseJson(text);
  if (!value.ok()) return CheckError(value.status());
  jinja::Budget budget({});
  const std::string written = jinja::WriteJson(budget, *value, {});
  const Expected<jinja::Value> again = jinja::ParseJson(written);
  DECANT_CHECK(again.ok(), "{}", again.status().ToString());
  DECANT_CHECK(jinja::WriteJson(budget, *again, {}) == written);
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  testing::FuzzInput input(data, size);
  const std::string_view source = input.Part();
  const bool has_messages = !input.empty();
  const std::string_view messages = has_messages ? input.Part() : kMessages;
  const std::string_view tools = input.Part();
  const std::string_view variables = input.Part();
  CheckJson(messages);
  ChatTemplateOptions options;
  options.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  options.limits = kLimits;
  options.clock = FixedTime;
  const Expected<ChatTemplate> created = ChatTemplate::Create(source, options);
  if (!created.ok()) {
    CheckError(created.status());
    return 0;
  }
  const ChatRenderOptions render = {.tools_json = tools, .variables_json = variables};
  const Expected<std::string> text = created->Render(messages, render);
  const Expected<std::string> again = created->Render(messages, render);
  DECANT_CHECK(text.status().ToString() == again.status().ToString());
  if (!text.ok()) {
    CheckError(text.status());
    return 0;
  }
  DECANT_CHECK(*text == *again && IsUtf8(*text) && text->size() <= kLimits.output_bytes);
  return 0;
}
