#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "base/interrupt.h"
#include "base/json.h"
#include "engine/load_engine.h"
#include "weights/gguf.h"

namespace decant {
namespace {

struct TokenizeFlags {
  std::string model{};
  bool decode = false;
  bool special = false;
};

/// A JSON string in, a JSON list of ids out.
Expected<std::string> EncodeLine(const Tokenizer& tokenizer, const std::string& line,
                                 bool special) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_string()) return InvalidArgument("not a JSON string");
  JsonArray ids;
  for (const int32_t id :
       tokenizer.Encode(value.get_ref<const std::string&>(),
                        special ? SpecialTokens::kParse : SpecialTokens::kAsText)) {
    ids.Add(id);
  }
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

Status Tokenize(const TokenizeFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(flags.model));
  DECANT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(file));
  std::ios::sync_with_stdio(false);
  std::string line;
  for (int64_t number = 1; std::getline(std::cin, line); ++number) {
    const Expected<std::string> answer = flags.decode ? DecodeLine(tokenizer, line, flags.special)
                                                      : EncodeLine(tokenizer, line, flags.special);
    if (!answer.ok()) {
      std::cout.flush();
      return answer.status().WithContext(fmt::format("line {}", number));
    }
    std::cout << *answer << '\n';
  }
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
  app.add_flag("--decode", flags->decode,
               "The other way: a list of ids a line in, a string a line out");
  app.add_flag("--special", flags->special,
               "Control tokens, such as <|im_end|>, are read in text, and shown in decoded text");
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
