#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace decant {
namespace {

TEST(DetokenizerTest, ShowsWholeCodePointsOnly) {
  const Tokenizer tokenizer = Tokenizer::Create(MakeByteVocabulary({})).value();
  Detokenizer detokenizer(tokenizer, ControlTokens::kShow);
  EXPECT_EQ(detokenizer.Push('a'), "a");
  EXPECT_EQ(detokenizer.Push(0xE2), "");
  EXPECT_EQ(detokenizer.Push(0x82), "");
  EXPECT_EQ(detokenizer.Push(0xAC), "€");
  EXPECT_EQ(detokenizer.Push(0xF0), "");
  EXPECT_EQ(detokenizer.Push('b'),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(detokenizer.Push(0xC3), "");
  EXPECT_EQ(detokenizer.Push(99999), "");
  EXPECT_EQ(detokenizer.Flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(detokenizer.Flush(), "");
  EXPECT_EQ(detokenizer.Push('c'), "c");
}

TEST(DetokenizerTest, StreamsWhatDecodeGives) {
  const CounterRng rng(11);
  uint64_t counter = 0;
  const auto below = [&](uint64_t bound) { return rng.Below(counter++, bound); };
  // Lead and continuation bytes by themselves, whole characters, a control token, no token at all.
  TokenizerData data = MakeByteVocabulary({"Ã ©", "â Ĥ", "âĤ ¬", "ð Ł"});
  data.tokens.push_back("<s>");
  data.types.push_back(TokenType::kControl);
  const Tokenizer tokenizer = Tokenizer::Create(std::move(data)).value();
  const std::vector<int32_t> likely = {'a',  0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98, 0x80,
                                       0xED, 0xA0, 0xFF, 256,  257,  258,  259,  260,  -1};
  int replaced = 0;
  for (int round = 0; round < 5000; ++round) {
    const ControlTokens control = round % 2 == 0 ? ControlTokens::kShow : ControlTokens::kHide;
    Detokenizer detokenizer(tokenizer, control);
    std::vector<int32_t> tokens;
    std::string text;
    for (uint64_t n = below(24); n > 0; --n) {
      tokens.push_back(likely[below(likely.size())]);
      const std::string piece = detokenizer.Push(tokens.back());
      ASSERT_TRUE(IsUtf8(piece));
      text += piece;
    }
    text += detokenizer.Flush();
    ASSERT_EQ(text, tokenizer.Decode(tokens, control));
    replaced += text.find("\xEF\xBF\xBD") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(replaced, 1000);
}

}  // namespace
}  // namespace decant
