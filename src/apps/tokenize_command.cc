#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "base/clock.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "base/run_header.h"
#include "engine/model_text.h"

namespace decant {
namespace {

struct TokenizeFlags {
  std::string model{};
  bool decode = false;
  bool special = false;
  bool hex = false;
  int32_t benchmark = 0;
};

/// The bytes that `digits` spell, two a byte.
Expected<std::string> BytesOfHex(std::string_view digits) {
  if (digits.size() % 2 != 0) return InvalidArgument("an odd number of hexadecimal digits");
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (size_t i = 0; i < digits.size(); i += 2) {
    const std::string_view pair = digits.substr(i, 2);
    uint8_t byte = 0;
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + 2, byte, 16);
    if (error != std::errc() || end != pair.data() + 2) {
      return InvalidArgument("{} is no byte in hexadecimal", JsonQuote(pair));
    }
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

/// The text of a line: a JSON string, or with --hex its bytes.
Expected<std::string> ReadText(const std::string& line, bool hex) {
  if (hex) return BytesOfHex(line);
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return InvalidArgument("not a JSON string");
  return value.get<std::string>();
}

SpecialTokens Policy(const TokenizeFlags& flags) {
  return flags.special ? SpecialTokens::kParse : SpecialTokens::kAsText;
}

/// A text in, a JSON list of ids out.
Expected<std::string> EncodeLine(const Tokenizer& tokenizer, const std::string& line,
                                 const TokenizeFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const std::string text, ReadText(line, flags.hex));
  JsonArray ids;
  for (const int32_t id : tokenizer.Encode(text, Policy(flags))) ids.Add(id);
  return ids.ToString();
}

/// A JSON list of ids in, a JSON string out.
Expected<std::string> DecodeLine(const Tokenizer& tokenizer, const std::string& line,
                                 bool special) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_array()) return InvalidArgument("not a JSON list of ids");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const nlohmann::json& element : value) {
    const bool fits = element.is_number_unsigned() &&
                      element.get<uint64_t>() < static_cast<uint64_t>(tokenizer.vocab_size());
    if (!fits) {
      return InvalidArgument("{} is no token id; allowed: 0 to {}", element.dump(-1, ' ', true),
                             tokenizer.vocab_size() - 1);
    }
    ids.push_back(element.get<int32_t>());
  }
  return JsonQuote(tokenizer.Decode(ids, special ? ControlTokens::kShow : ControlTokens::kHide));
}

/// Answers line after line of standard input.
Status AnswerLines(const Tokenizer& tokenizer, const TokenizeFlags& flags) {
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const Expected<std::string> answer = flags.decode ? DecodeLine(tokenizer, line, flags.special)
                                                      : EncodeLine(tokenizer, line, flags);
    if (!answer.ok()) {
      std::cout.flush();
      return answer.status().WithContext(fmt::format("line {}", number));
    }
    std::cout << *answer << '\n';
  }
  return Status();
}

/// Reads all lines, then encodes their texts again and again, in this thread.
Status Benchmark(const Tokenizer& tokenizer, const TokenizeFlags& flags) {
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (std::string line; std::getline(std::cin, line);) {
    Expected<std::string> text = ReadText(line, flags.hex);
    if (!text.ok()) return text.status().WithContext(fmt::format("line {}", texts.size() + 1));
    bytes += text->size();
    texts.push_back(std::move(*text));
  }
  const SpecialTokens policy = Policy(flags);
  size_t tokens = 0;
  const auto encode_all = [&] {
    const Stopwatch stopwatch;
    tokens = 0;
    for (const std::string& text : texts) tokens += tokenizer.Encode(text, policy).size();
    return stopwatch.Seconds();
  };
  encode_all();
  JsonArray seconds;
  for (int32_t i = 0; i < flags.benchmark && !InterruptRequested(); ++i) seconds.Add(encode_all());
  std::cout << ToJson(MakeRunHeader({}, 0)).ToString() << '\n'
            << JsonObject()
                   .Add("texts", texts.size())
                   .Add("bytes", bytes)
                   .Add("tokens", tokens)
                   .Add("seconds", seconds)
                   .ToString()
            << '\n';
  return Status();
}

Status Tokenize(const TokenizeFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(flags.model));
  std::ios::sync_with_stdio(false);
  DECANT_RETURN_IF_ERROR(flags.benchmark > 0 ? Benchmark(tokenizer, flags)
                                             : AnswerLines(tokenizer, flags));
  std::cout.flush();
  if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
  if (!std::cout) return Error(StatusCode::kInternal, "standard output cannot be written");
  return Status();
}

}  // namespace

Command AddTokenizeCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand("tokenize", "Turn text into token ids, or ids into text");
  const auto flags = std::make_shared<TokenizeFlags>();
  AddModelFlag(app, flags->model);
  CLI::Option* decode = app.add_flag("--decode", flags->decode,
                                     "The other way: a list of ids a line in, a string a line out");
  app.add_flag("--special", flags->special,
               "Control tokens, such as <|im_end|>, are read in text, and shown in decoded text");
  app.add_flag("--hex", flags->hex,
               "A line is not a JSON string but the text's bytes in hexadecimal: any bytes at all")
      ->excludes(decode);
  app.add_option("--benchmark", flags->benchmark,
                 "Write no ids but, after a warm-up, the seconds that each of so many rounds over\n"
                 "all texts took: one line that describes the machine and one with the figures")
      ->check(CLI::Range(1, 1000000))
      ->excludes(decode);
  app.footer(
      "Reads one JSON string a line and writes its ids as a JSON list, a line each; no token is\n"
      "added that the text does not have. A line that is neither ends the command with an error\n"
      "that names it.\n"
      "Examples:\n"
      "  echo '\"Hello, world\"' | decant tokenize --model M.gguf\n"
      "  echo '[19556, 28, 905]' | decant tokenize --model M.gguf --decode");
  return {.app = &app, .run = [flags] { return Tokenize(*flags); }};
}

}  // namespace decant
