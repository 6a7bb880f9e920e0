#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/chat_session.h"
#include "apps/command.h"
#include "apps/conversation.h"
#include "apps/engine_flags.h"
#include "apps/read_input.h"
#include "apps/sampling_flags.h"
#include "apps/stream_answer.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "engine/completion.h"
#include "engine/model_text.h"

namespace decant {
namespace {

struct GenerateFlags {
  EngineFlags engine{};
  SamplingFlags sampling{};
  std::optional<std::string> prompt{};
  std::optional<std::string> prompt_file{};
  bool special = false;
  bool chat = false;
  std::optional<std::string> system{};
  std::optional<std::string> messages{};
  std::optional<std::string> chat_template{};
  int32_t samples = 1;
  std::optional<int32_t> logprobs{};
  std::optional<int32_t> prompt_logprobs{};
  bool json = false;

  bool conversation() const { return chat || system || messages; }
};

Expected<std::string> ReadPrompt(const GenerateFlags& flags) {
  if (flags.prompt) return *flags.prompt;
  if (flags.prompt_file) return ReadFile(*flags.prompt_file);
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs("Type the prompt; end it with Ctrl-D on a line of its own.\n", stderr);
  }
  return ReadStdin();
}

/// What is known of the conversation before the model is loaded.
Expected<Conversation> ReadConversation(const GenerateFlags& flags) {
  Conversation conversation;
  if (flags.messages) {
    DECANT_ASSIGN_OR_RETURN(const std::string json, ReadFile(*flags.messages));
    DECANT_ASSIGN_OR_RETURN(conversation, Conversation::Parse(json, *flags.messages));
    if (flags.system) {
      return InvalidArgument("--system and --messages: the system message belongs in the file");
    }
  } else if (flags.system) {
    conversation.Add("system", *flags.system);
  }
  if (flags.chat && !flags.prompt && !flags.prompt_file) return conversation;
  if (flags.prompt || flags.prompt_file || !flags.messages) {
    DECANT_ASSIGN_OR_RETURN(const std::string text, ReadPrompt(flags));
    conversation.Add("user", text);
  }
  return conversation;
}

Expected<ChatPrompter> LoadPrompter(const ServedModel& served, const GenerateFlags& flags) {
  std::string chat_template;
  if (flags.chat_template) {
    DECANT_ASSIGN_OR_RETURN(chat_template, ReadFile(*flags.chat_template));
  }
  return LoadChatPrompter(served.files(), served.shared_tokenizer(), chat_template);
}

std::vector<Token> EncodePlain(const Tokenizer& tokenizer, const std::string& text, bool special) {
  std::vector<Token> tokens =
      tokenizer.Encode(text, special ? SpecialTokens::kParse : SpecialTokens::kAsText);
  if (tokenizer.add_bos()) tokens.insert(tokens.begin(), *tokenizer.bos());
  return tokens;
}

JsonObject LogprobJson(const Tokenizer& tokenizer, const TokenLogprob& entry) {
  return JsonObject()
      .Add("token", entry.token)
      .Add("text", tokenizer.TokenBytes(entry.token))
      .Add("logprob", static_cast<double>(entry.logprob));
}

JsonArray LogprobsJson(const Tokenizer& tokenizer, const std::vector<PositionLogprobs>& positions) {
  JsonArray array;
  for (const PositionLogprobs& position : positions) {
    JsonArray top;
    for (const TokenLogprob& entry : position.top) top.Add(LogprobJson(tokenizer, entry));
    array.Add(LogprobJson(tokenizer, position.chosen).Add("top", top));
  }
  return array;
}

std::string ToJson(const Tokenizer& tokenizer, const GenerateFlags& flags,
                   const Completion& completion) {
  JsonArray tokens;
  for (const Token token : completion.tokens) tokens.Add(token);
  JsonObject json;
  json.Add("sample", completion.sample)
      .Add("text", completion.text)
      .Add("finish", FinishReasonName(completion.finish))
      .Add("tokens", tokens);
  if (flags.logprobs) json.Add("logprobs", LogprobsJson(tokenizer, completion.logprobs));
  if (flags.prompt_logprobs && completion.sample == 0) {
    json.Add("prompt_logprobs", LogprobsJson(tokenizer, completion.prompt_logprobs));
  }
  return json.ToString();
}

/// Several samples, or what is to be read by a program: nothing is shown before all have ended.
Status GenerateWhole(ServedModel& served, const GenerateFlags& flags, GenerateRequest request) {
  DECANT_ASSIGN_OR_RETURN(std::future<std::vector<Completion>> done,
                          SubmitAndCollectSamples(served.engine(), std::move(request)));
  while (done.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (InterruptRequested()) served.engine().Stop();
  }
  for (const Completion& completion : done.get()) {
    if (completion.finish == FinishReason::kCancelled) {
      return Status(StatusCode::kCancelled, "interrupted");
    }
    DECANT_RETURN_IF_ERROR(completion.status);
    if (flags.json) {
      std::printf("%s\n", ToJson(served.tokenizer(), flags, completion).c_str());
    } else {
      std::printf("%s--- sample %d (%s)\n%s\n", completion.sample == 0 ? "" : "\n",
                  completion.sample, std::string(FinishReasonName(completion.finish)).c_str(),
                  completion.text.c_str());
    }
  }
  return {};
}

Status Generate(const GenerateFlags& flags) {
  if ((flags.logprobs || flags.prompt_logprobs) && !flags.json) {
    return InvalidArgument("--logprobs and --prompt-logprobs need --json");
  }
  if (flags.chat && (flags.json || flags.samples > 1)) {
    return InvalidArgument("--chat shows one answer as it comes; leave out --json and --samples");
  }
  EngineFlags engine = flags.engine;
  if (flags.samples > 1) engine.max_batch = std::max(engine.max_batch, flags.samples);
  DECANT_ASSIGN_OR_RETURN(const EngineOptions options, ToEngineOptions(engine));
  Conversation conversation;
  std::string text;
  if (flags.conversation()) {
    DECANT_ASSIGN_OR_RETURN(conversation, ReadConversation(flags));
  } else {
    DECANT_ASSIGN_OR_RETURN(text, ReadPrompt(flags));
  }
  DECANT_ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> served, LoadWithProgress(options));

  std::optional<ChatPrompter> prompter;
  if (flags.conversation()) {
    DECANT_ASSIGN_OR_RETURN(prompter, LoadPrompter(*served, flags));
    if (flags.chat) return RunChat(*served, *prompter, flags.sampling, std::move(conversation));
  }
  DECANT_ASSIGN_OR_RETURN(GenerateRequest request,
                          ToRequest(flags.sampling, served->files().generation));
  if (prompter) {
    DECANT_ASSIGN_OR_RETURN(
        ChatPrompt prompt,
        prompter->Render(conversation.MessagesJson(), {.tools_json = conversation.tools_json()}));
    request.prompt = std::move(prompt.tokens);
  } else {
    request.prompt = EncodePlain(served->tokenizer(), text, flags.special);
  }
  request.samples = flags.samples;
  request.sampling.logprobs = flags.logprobs;
  request.sampling.prompt_logprobs = flags.prompt_logprobs;
  if (flags.json || flags.samples > 1) return GenerateWhole(*served, flags, std::move(request));

  DECANT_ASSIGN_OR_RETURN(const StreamedAnswer answer,
                          StreamAnswer(served->engine(), std::move(request)));
  std::fprintf(stderr, "%s\n", DescribeAnswer(answer).c_str());
  if (answer.finish == FinishReason::kCancelled)
    return Status(StatusCode::kCancelled, "interrupted");
  return answer.status;
}

}  // namespace

Command AddGenerateCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand("generate", "Continue a prompt or a conversation");
  const auto flags = std::make_shared<GenerateFlags>();
  flags->engine.max_batch = 1;
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  auto* prompt = app.add_option("--prompt", flags->prompt,
                                "The text to continue; in a conversation, the user's message")
                     ->type_name("TEXT");
  app.add_option("--prompt-file", flags->prompt_file,
                 "A file with the text; without either flag it comes from standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  auto* special =
      app.add_flag("--special", flags->special,
                   "Names of control tokens in the prompt, such as <|im_start|>, are those tokens");
  app.add_flag("--chat", flags->chat,
               "A conversation in the terminal, by the model's chat template, its history kept")
      ->excludes(special);
  app.add_option("--system", flags->system,
                 "The system message of a conversation; without --chat one message is answered")
      ->type_name("TEXT")
      ->excludes(special);
  app.add_option(
         "--messages", flags->messages,
         "A file with a conversation so far: a JSON array of {\"role\", \"content\"}, or an "
         "object with \"messages\" and \"tools\"")
      ->type_name("FILE")
      ->excludes(special);
  app.add_option("--chat-template", flags->chat_template,
                 "A Jinja file to use in place of the model's chat template")
      ->type_name("FILE")
      ->excludes(special);
  AddSamplingFlags(app, flags->sampling);
  app.add_option("--samples", flags->samples, "Answers to one prompt, which is read once")
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--json", flags->json, "Print a line of JSON for each sample once all have ended");
  app.add_option("--logprobs", flags->logprobs,
                 "With --json: the log-probability of each token and of the K likeliest ones")
      ->type_name("K");
  app.add_option("--prompt-logprobs", flags->prompt_logprobs,
                 "With --json: the same for the prompt's tokens")
      ->type_name("K");
  app.footer(
      "Examples:\n"
      "  decant generate --model M.gguf --prompt \"The three primary colours are\"\n"
      "  decant generate --model M.gguf --chat --system \"Answer in one sentence.\"\n"
      "  decant generate --model Qwen/Qwen2.5-0.5B-Instruct --messages talk.json\n"
      "  decant generate --model M.gguf --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt\n"
      "The text goes to standard output, all else to standard error. Ctrl-C ends it early; in a\n"
      "--chat it stops the answer only. docs/sampling.md explains the sampling flags.");
  return {.app = &app, .run = [flags] { return Generate(*flags); }};
}

}  // namespace decant
