#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/engine_flags.h"
#include "apps/read_input.h"
#include "engine/model_text.h"

namespace decant {
namespace {

struct RenderFlags {
  std::string model{};
  std::optional<std::string> messages{};
  std::optional<std::string> tools{};
  std::optional<std::string> chat_template{};
  std::string variables{};
  bool no_generation_prompt = false;
  bool ids = false;
};

Status Render(const RenderFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const ModelFiles files, OpenModelFiles(flags.model));
  DECANT_ASSIGN_OR_RETURN(Tokenizer loaded, LoadTokenizer(files));
  const auto tokenizer = std::make_shared<const Tokenizer>(std::move(loaded));
  std::string chat_template;
  if (flags.chat_template) {
    DECANT_ASSIGN_OR_RETURN(chat_template, ReadFile(*flags.chat_template));
  }
  DECANT_ASSIGN_OR_RETURN(const ChatPrompter prompter,
                          LoadChatPrompter(files, tokenizer, chat_template));
  std::string json;
  if (flags.messages) {
    DECANT_ASSIGN_OR_RETURN(json, ReadFile(*flags.messages));
  } else {
    DECANT_ASSIGN_OR_RETURN(json, ReadStdin());
  }
  DECANT_ASSIGN_OR_RETURN(const Conversation conversation,
                          Conversation::Parse(json, flags.messages.value_or("standard input")));
  std::string tools = conversation.tools_json();
  if (flags.tools) {
    DECANT_ASSIGN_OR_RETURN(tools, ReadFile(*flags.tools));
  }
  DECANT_ASSIGN_OR_RETURN(
      const ChatPrompt prompt,
      prompter.Render(conversation.MessagesJson(),
                      {.generation_prompt = flags.no_generation_prompt ? GenerationPrompt::kNo
                                                                       : GenerationPrompt::kYes,
                       .tools_json = tools,
                       .variables_json = flags.variables}));
  if (flags.ids) {
    std::string line = fmt::format("[{}]\n", fmt::join(prompt.tokens, ", "));
    std::fputs(line.c_str(), stdout);
  } else {
    std::fwrite(prompt.text.data(), 1, prompt.text.size(), stdout);
  }
  return {};
}

}  // namespace

Command AddRenderCommand(CLI::App& parent) {
  CLI::App& app =
      *parent.add_subcommand("render", "Show the prompt that a model's chat template makes");
  const auto flags = std::make_shared<RenderFlags>();
  AddModelFlag(app, flags->model);
  app.add_option("--messages", flags->messages,
                 "A file with a JSON array of messages, or an object with \"messages\" and "
                 "\"tools\"; without it, standard input")
      ->type_name("FILE");
  app.add_option("--tools", flags->tools, "A file with a JSON array of tools")->type_name("FILE");
  app.add_option("--variables", flags->variables,
                 "A JSON object of further variables for the template")
      ->type_name("JSON");
  app.add_option("--chat-template", flags->chat_template,
                 "A Jinja file to use in place of the model's template")
      ->type_name("FILE");
  app.add_flag("--no-generation-prompt", flags->no_generation_prompt,
               "Do not open the assistant's answer at the end");
  app.add_flag("--ids", flags->ids, "Print the prompt's token ids instead of its text");
  app.footer(
      "Example:\n"
      "  echo '[{\"role\": \"user\", \"content\": \"Hi\"}]' | decant render --model M.gguf\n"
      "The names of control tokens in messages stay text; those of the template become tokens.");
  return {.app = &app, .run = [flags] { return Render(*flags); }};
}

}  // namespace decant
