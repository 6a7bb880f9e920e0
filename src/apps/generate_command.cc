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

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/read_input.h"
#include "base/clock.h"
#include "base/interrupt.h"

namespace decant {
namespace {

struct GenerateFlags {
  EngineFlags engine{};
  std::optional<std::string> prompt{};
  std::optional<std::string> prompt_file{};
  bool special = false;
  int32_t max_tokens = 128;
  SamplingParams sampling{};
  std::vector<std::string> stops{};
};

Expected<std::string> ReadPrompt(const GenerateFlags& flags) {
  if (flags.prompt) return *flags.prompt;
  if (flags.prompt_file) return ReadFile(*flags.prompt_file);
  if (isatty(STDIN_FILENO) != 0) {
    std::fputs("Type the prompt; end it with Ctrl-D on a line of its own.\n", stderr);
  }
  return ReadStdin();
}

/// What became of the request, for the line at the end.
struct Outcome {
  FinishReason finish = FinishReason::kCancelled;
  Status status{};
  int32_t generated_tokens = 0;
  int64_t first_token = 0;  ///< SteadyNanos
  int64_t end = 0;          ///< SteadyNanos
  bool ends_line = true;    ///< The text shown so far ends with a line break, or is empty.
};

/// Writes the text as it comes. All calls come from the engine's loop, the last one fulfils `done`.
class Printer {
 public:
  std::future<Outcome> outcome() { return done_.get_future(); }

  void Update(const StreamUpdate& update) {
    std::fwrite(update.text.data(), 1, update.text.size(), stdout);
    std::fflush(stdout);
    if (!update.text.empty()) outcome_.ends_line = update.text.back() == '\n';
    if (update.token && update.generated_tokens == 1) outcome_.first_token = update.time;
    if (!update.finish) return;
    outcome_.finish = *update.finish;
    outcome_.status = update.status;
    outcome_.generated_tokens = update.generated_tokens;
    outcome_.end = update.time;
    done_.set_value(outcome_);
  }

 private:
  Outcome outcome_;
  std::promise<Outcome> done_;
};

void PrintSpeed(const Outcome& outcome, int64_t submitted, size_t prompt_tokens) {
  const double reading = static_cast<double>(outcome.first_token - submitted) * 1e-9;
  const double writing = static_cast<double>(outcome.end - outcome.first_token) * 1e-9;
  std::string line =
      fmt::format("[{}; prompt: {} tokens", FinishReasonName(outcome.finish), prompt_tokens);
  if (outcome.generated_tokens > 0) {
    line += fmt::format(" in {:.3f} s, {:.0f} tokens/s; generated: {} tokens", reading,
                        static_cast<double>(prompt_tokens) / reading, outcome.generated_tokens);
  }
  if (outcome.generated_tokens > 1) {
    line += fmt::format(" in {:.2f} s, {:.1f} tokens/s", writing,
                        (outcome.generated_tokens - 1) / writing);
  }
  std::fprintf(stderr, "%s]\n", line.c_str());
}

Status Generate(const GenerateFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const EngineOptions options, ToEngineOptions(flags.engine));
  DECANT_ASSIGN_OR_RETURN(const std::string prompt, ReadPrompt(flags));
  DECANT_ASSIGN_OR_RETURN(const std::unique_ptr<ServedModel> served, LoadWithProgress(options));

  GenerateRequest request;
  const Tokenizer& tokenizer = served->tokenizer();
  request.prompt =
      tokenizer.Encode(prompt, flags.special ? SpecialTokens::kParse : SpecialTokens::kAsText);
  if (tokenizer.add_bos()) request.prompt.insert(request.prompt.begin(), *tokenizer.bos());
  request.max_new_tokens = flags.max_tokens;
  request.sampling = flags.sampling;
  request.stop_strings = flags.stops;
  const auto printer = std::make_shared<Printer>();
  std::future<Outcome> done = printer->outcome();
  request.sink = [printer](const StreamUpdate& update) { printer->Update(update); };
  const size_t prompt_tokens = request.prompt.size();

  const int64_t submitted = SteadyNanos();
  DECANT_ASSIGN_OR_RETURN(const RequestId id, served->engine().Submit(std::move(request)));
  while (done.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (InterruptRequested()) served->engine().Cancel(id);
  }
  const Outcome outcome = done.get();
  if (!outcome.ends_line) std::fputs("\n", stdout);
  std::fflush(stdout);
  PrintSpeed(outcome, submitted, prompt_tokens);
  if (outcome.finish == FinishReason::kCancelled)
    return Status(StatusCode::kCancelled, "interrupted");
  return outcome.status;
}

}  // namespace

Command AddGenerateCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand("generate", "Continue a prompt, streaming the text");
  const auto flags = std::make_shared<GenerateFlags>();
  flags->engine.max_batch = 1;
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  auto* prompt =
      app.add_option("--prompt", flags->prompt, "The text to continue")->type_name("TEXT");
  app.add_option("--prompt-file", flags->prompt_file,
                 "A file with the text; without either flag it comes from standard input")
      ->type_name("FILE")
      ->excludes(prompt);
  app.add_flag("--special", flags->special,
               "Names of control tokens in the prompt, such as <|im_start|>, are those tokens");
  app.add_option("--max-tokens", flags->max_tokens, "Tokens to generate at most")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--temperature", flags->sampling.temperature,
                 "0: always the likeliest token; else what logits are divided by")
      ->capture_default_str()
      ->type_name("T");
  app.add_option("--top-k", flags->sampling.top_k, "Draw from the K likeliest tokens; 0: from all")
      ->capture_default_str()
      ->type_name("K");
  app.add_option("--top-p", flags->sampling.top_p,
                 "Draw from the likeliest tokens that together have probability P")
      ->capture_default_str()
      ->type_name("P");
  app.add_option("--seed", flags->sampling.seed,
                 "Of the draws; a seed gives the same text whatever runs beside it")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--stop", flags->stops, "End before this text; may be given up to 16 times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app.footer(
      "Examples:\n"
      "  decant generate --model M.gguf --prompt \"The three primary colours are\"\n"
      "  decant generate --model M.gguf --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt\n"
      "  decant generate --model M.gguf --special --prompt \\\n"
      "    $'<|im_start|>user\\nWhat is rain?<|im_end|>\\n<|im_start|>assistant\\n'\n"
      "The text goes to standard output, all else to standard error. Ctrl-C ends it early.");
  return {.app = &app, .run = [flags] { return Generate(*flags); }};
}

}  // namespace decant
