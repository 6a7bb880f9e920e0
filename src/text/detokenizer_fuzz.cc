// The streaming detokenizer: tokens one by one give what all of them at once give, always in whole
// code points. The first byte chooses the vocabulary, each one after it is a token.

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "text/detokenizer.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace decant {
namespace {

using Kind = DecoderStep::Kind;

void AddToken(TokenizerData& data, std::string spelling, TokenType type) {
  data.tokens.push_back(std::move(spelling));
  data.types.push_back(type);
}

/// Bytes, parts of characters, characters and a control token, by byte-level BPE.
Tokenizer MakeByteLevel() {
  TokenizerData data = MakeByteVocabulary({"Ã ©", "â Ĥ", "âĤ ¬", "ð Ł"});
  AddToken(data, "<s>", TokenType::kControl);
  return Tokenizer::Create(std::move(data)).value();
}

/// Bytes as SentencePiece's vocabularies have them, words, and a control token.
Tokenizer MakeByteFallback(std::vector<DecoderStep> decoders) {
  TokenizerData data;
  for (int byte = 0; byte < 256; ++byte) {
    AddToken(data, fmt::format("<0x{:02X}>", byte), TokenType::kByte);
  }
  for (const char* text : {"▁", "▁a", "b", "é", "▁▁", "a▁b"}) {
    AddToken(data, text, TokenType::kNormal);
  }
  AddToken(data, "<s>", TokenType::kControl);
  data.pipeline.emplace();
  data.pipeline->model.byte_fallback = true;
  data.pipeline->decoders = std::move(decoders);
  return Tokenizer::Create(std::move(data)).value();
}

std::vector<DecoderStep> SentencePieceSteps(Kind fallback) {
  return {{.kind = Kind::kReplace, .pattern = {.text = "▁"}, .content = " "},
          {.kind = fallback},
          {.kind = Kind::kFuse},
          {.kind = Kind::kStrip, .content = " ", .start = 1}};
}

const std::vector<Tokenizer>& Tokenizers() {
  static const std::vector<Tokenizer> tokenizers = [] {
    std::vector<Tokenizer> made;
    made.reserve(5);
    made.push_back(MakeByteLevel());
    made.push_back(MakeByteFallback(SentencePieceSteps(Kind::kByteFallback)));
    made.push_back(MakeByteFallback(SentencePieceSteps(Kind::kByteFallbackEach)));
    made.push_back(MakeByteFallback(
        {{.kind = Kind::kByteFallback}, {.kind = Kind::kMetaspace, .content = "▁", .drop = true}}));
    made.push_back(MakeByteFallback({{.kind = Kind::kJoin}}));
    return made;
  }();
  return tokenizers;
}

/// Each byte is the token of that number, but for the highest, which are those above 255 and ids
/// that no token has.
std::vector<int32_t> ReadTokens(std::string_view bytes) {
  constexpr int32_t kFirstOther = 0xF5;  // no UTF-8 holds this byte or a higher one
  std::vector<int32_t> tokens;
  tokens.reserve(bytes.size());
  for (const char c : bytes) {
    const int32_t byte = static_cast<uint8_t>(c);
    tokens.push_back(byte < kFirstOther ? byte : byte == 0xFF ? -1 : 256 + byte - kFirstOther);
  }
  return tokens;
}

std::string Stream(Detokenizer& detokenizer, const std::vector<int32_t>& tokens) {
  std::string text;
  for (const int32_t token : tokens) {
    const std::string piece = detokenizer.Push(token);
    DECANT_CHECK(IsUtf8(piece));
    text += piece;
  }
  const std::string last = detokenizer.Flush();
  DECANT_CHECK(IsUtf8(last));
  return text + last;
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  testing::FuzzInput input(data, std::min<size_t>(size, 4096));
  const uint8_t choice = input.Byte();
  const Tokenizer& tokenizer = Tokenizers()[choice % Tokenizers().size()];
  const ControlTokens control = choice < 128 ? ControlTokens::kShow : ControlTokens::kHide;
  const std::vector<int32_t> tokens = ReadTokens(input.rest());
  const std::string whole = tokenizer.Decode(tokens, control);
  Detokenizer detokenizer(tokenizer, control);
  DECANT_CHECK(Stream(detokenizer, tokens) == whole);
  DECANT_CHECK(Stream(detokenizer, tokens) == whole, "the second text differs from the first");
  if (&tokenizer == &Tokenizers().front()) {
    const std::vector<int32_t> encoded = tokenizer.Encode(input.rest(), SpecialTokens::kAsText);
    DECANT_CHECK(tokenizer.Decode(encoded, control) == RepairUtf8(input.rest()));
  }
  return 0;
}
