// tokenizer.json, and behind the separator a text. A tokenizer that is accepted encodes the text to
// tokens of its own, and streams what it decodes.

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "text/detokenizer.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"

namespace decant {
namespace {

constexpr std::string_view kText = "Hé, wörld!  12 <s> ▁a\n\xFF";

void CheckStream(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  for (const ControlTokens control : {ControlTokens::kShow, ControlTokens::kHide}) {
    const std::string whole = tokenizer.Decode(tokens, control);
    DECANT_CHECK(IsUtf8(whole));
    Detokenizer detokenizer(tokenizer, control);
    std::string text;
    for (const int32_t token : tokens) text += detokenizer.Push(token);
    text += detokenizer.Flush();
    DECANT_CHECK(text == whole);
  }
}

void CheckEncode(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialTokens policy : {SpecialTokens::kAsText, SpecialTokens::kParse}) {
    const std::vector<int32_t> tokens =
        tokenizer.Encode(text, policy, AddedAround::kPrefixAndSuffix);
    for (const int32_t token : tokens) {
      DECANT_CHECK(token >= 0 && token < tokenizer.vocab_size());
    }
    DECANT_CHECK(tokens == tokenizer.Encode(text, policy, AddedAround::kPrefixAndSuffix));
    CheckStream(tokenizer, tokens);
  }
}

void CheckTokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> tokens;
  for (int32_t id = -1; id <= std::min(tokenizer.vocab_size(), 1000); ++id) {
    tokens.push_back(id);
    const std::string_view bytes = tokenizer.TokenBytes(id);
    DECANT_CHECK(tokenizer.Spelling(id).size() <= Tokenizer::kMaxTokenBytes);
    if (const std::optional<int32_t> found = tokenizer.TokenId(bytes)) {
      DECANT_CHECK(*found >= 0 && *found < tokenizer.vocab_size());
    }
  }
  CheckStream(tokenizer, tokens);
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  testing::FuzzInput input(data, size);
  Expected<TokenizerData> read = ReadTokenizerJson(input.Part(), "tokenizer.json");
  if (!read.ok()) {
    DECANT_CHECK(read.status().message().starts_with("tokenizer.json: "));
    return 0;
  }
  const Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(read).value());
  if (!tokenizer.ok()) return 0;
  CheckTokens(*tokenizer);
  CheckEncode(*tokenizer, input.empty() ? kText : input.rest().substr(0, 1024));
  return 0;
}
