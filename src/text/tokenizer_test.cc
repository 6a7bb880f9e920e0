#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "text/detokenizer.h"
#include "text/test_vocabulary.h"
#include "text/utf8.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;

/// Bytes, "ab" (256), "abc" (257), " a" (258), then the tokens named here.
TokenizerData SmallData(const std::vector<std::pair<std::string, TokenType>>& added = {}) {
  TokenizerData data = MakeByteVocabulary({"a b", "ab c", "Ġ a"});
  for (const auto& [text, type] : added) {
    data.tokens.push_back(text);
    data.types.push_back(type);
  }
  return data;
}

Tokenizer Small(const std::vector<std::pair<std::string, TokenType>>& added = {}) {
  return Tokenizer::Create(SmallData(added)).value();
}

TEST(TokenizerTest, RefusesMalformedVocabularies) {
  struct Case {
    std::function<void(TokenizerData&)> damage;
    std::string message;
  };
  const std::vector<Case> cases = {
      {[](auto& d) { d = {}; }, "no tokens"},
      {[](auto& d) { d.types.pop_back(); }, "259 tokens but 258 token types"},
      {[](auto& d) { d.tokens[7].clear(); }, "token 7 is empty"},
      {[](auto& d) { d.tokens[7] = std::string("\xC3"); }, "token 7, '\xEF\xBF\xBD', is not UTF-8"},
      {[](auto& d) { d.tokens[7].assign(Tokenizer::kMaxTokenBytes + 1, 'x'); },
       "token 7 has 4097 bytes; at most 4096"},
      {[](auto& d) { d.tokens[7] = std::string("abc"); }, "tokens 7 and 257 are both 'abc'"},
      {[](auto& d) { d.types[7] = static_cast<TokenType>(7); }, "token 7 has no type: 7"},
      {[](auto& d) { d.types[7] = static_cast<TokenType>(0); }, "token 7 has no type: 0"},
      {[](auto& d) { d.merges[1] = std::string("abc"); }, "merge 1, 'abc', is not two tokens"},
      {[](auto& d) { d.merges[1] = std::string("a b c"); }, "merge 1, 'a b c', is not two tokens"},
      {[](auto& d) { d.merges[1] = std::string(" c"); },
       "its left side, '', is not in the vocabulary"},
      {[](auto& d) { d.merges[1] = std::string("zz c"); },
       "its left side, 'zz', is not in the vocabulary"},
      {[](auto& d) { d.merges[1] = std::string("c zz"); },
       "its right side, 'zz', is not in the vocabulary"},
      {[](auto& d) { d.merges[1] = std::string("c c"); },
       "its result, 'cc', is not in the vocabulary"},
      {[](auto& d) { d.merges[1] = std::string("a b"); }, "merge 1, 'a b', occurs twice"},
      {[](auto& d) { d.types[257] = TokenType::kControl; },
       "its result, 'abc', is token 257, which is not a normal token"},
      {[](auto& d) { d.types[256] = TokenType::kUnused; },
       "its result, 'ab', is not in the vocabulary"},
      {[](auto& d) { d.bos = 259; }, "the bos token is 259, but ids are 0 to 258"},
      {[](auto& d) { d.bos = -1; }, "the bos token is -1"},
      {[](auto& d) {
         d.eos = {3, 259};
       },
       "an eos token is 259, but ids are 0 to 258"},
      {[](auto& d) { d.add_bos = true; }, "there is none"},
  };
  ASSERT_TRUE(Tokenizer::Create(SmallData()).ok());
  for (const Case& c : cases) {
    TokenizerData data = SmallData();
    c.damage(data);
    const Status status = Tokenizer::Create(std::move(data)).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << c.message;
    EXPECT_NE(status.message().find(c.message), std::string::npos)
        << status.message() << "\nshould hold: " << c.message;
  }
}

TEST(TokenizerTest, NamesWhatAGgufFileMayHold) {
  EXPECT_EQ(TokenTypeFromGguf(3).value(), TokenType::kControl);
  EXPECT_FALSE(TokenTypeFromGguf(0).ok());
  EXPECT_EQ(TokenTypeFromGguf(6).value(), TokenType::kByte);
  EXPECT_FALSE(TokenTypeFromGguf(7).ok());
  EXPECT_FALSE(TokenTypeFromGguf((int64_t{1} << 32) + 1).ok());
  EXPECT_EQ(PreTokenizerFromName("qwen2").value(), PreTokenizer::kQwen2);
  EXPECT_EQ(PreTokenizerFromName("bert").status().code(), StatusCode::kUnimplemented);
}

TEST(TokenizerTest, CutsOutAddedTokensLeftmostAndLongest) {
  const Tokenizer tokenizer = Small({{"<s>", TokenType::kControl},
                                     {"<s><s>x", TokenType::kControl},
                                     {"<t>", TokenType::kUserDefined},
                                     {"s><t", TokenType::kUserDefined}});
  const int32_t s = 259;
  const int32_t ssx = 260;
  const int32_t t = 261;
  using enum SpecialTokens;
  EXPECT_EQ(tokenizer.Encode("<s><s>x<s><s>", kParse), (Ids{ssx, s, s}));
  EXPECT_EQ(tokenizer.Encode("<s><t>abc", kParse), (Ids{s, t, 257}));
  // A control token that is not parsed still hides what overlaps it, as in the reference.
  EXPECT_EQ(tokenizer.Encode("<s><t>", kAsText), (Ids{'<', 's', '>', t}));
  EXPECT_EQ(tokenizer.Encode("<s", kParse), (Ids{'<', 's'}));
}

TEST(TokenizerTest, NeverMakesAControlTokenOfText) {
  const Tokenizer tokenizer = MakeTestTokenizer("qwen2.5");
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string text = "a" + std::string(tokenizer.TokenBytes(id)) + " b";
    for (const int32_t got : tokenizer.Encode(text, SpecialTokens::kAsText)) {
      ASSERT_FALSE(tokenizer.is_control(got)) << text;
    }
    const Ids parsed = tokenizer.Encode(text, SpecialTokens::kParse);
    ASSERT_EQ(parsed.size(), 3U);
    ASSERT_EQ(parsed[1], id);
  }
}

TEST(TokenizerTest, LeavesOutBytesWithoutASymbol) {
  TokenizerData data = SmallData();
  data.tokens['x'] = "[gap]";
  data.types['x'] = TokenType::kUnused;
  const Tokenizer tokenizer = Tokenizer::Create(std::move(data)).value();
  EXPECT_EQ(tokenizer.Encode("axbcx", SpecialTokens::kAsText), Ids{257});
  EXPECT_EQ(tokenizer.Decode(Ids{'x'}, ControlTokens::kShow), "[gap]");
}

TEST(TokenizerTest, ReadsIllFormedTextAsReplacementCharacters) {
  const Tokenizer tokenizer = MakeTestTokenizer("smollm2");
  for (const std::string text : {"a\xFF", "\xE4\xB8", "\xED\xA0\x80x", "\xF0\x9F\x98 \xC0\xAF"}) {
    EXPECT_EQ(tokenizer.Encode(text, SpecialTokens::kAsText),
              tokenizer.Encode(RepairUtf8(text), SpecialTokens::kAsText));
    EXPECT_NE(RepairUtf8(text), text);
  }
}

TEST(TokenizerTest, GivesBytesIdsAndMarkers) {
  TokenizerData data = SmallData({{"<s>", TokenType::kControl}, {"é ", TokenType::kUserDefined}});
  data.bos = 259;
  data.eos = {259, 3};
  data.add_bos = true;
  const Tokenizer tokenizer = Tokenizer::Create(std::move(data)).value();
  EXPECT_EQ(tokenizer.vocab_size(), 261);
  EXPECT_EQ(tokenizer.TokenBytes(258), " a");
  EXPECT_EQ(tokenizer.TokenBytes(0xE9), "\xE9");
  EXPECT_EQ(tokenizer.TokenBytes(260), "é ");
  EXPECT_EQ(tokenizer.TokenBytes(-1), "");
  EXPECT_EQ(tokenizer.TokenBytes(261), "");
  EXPECT_EQ(tokenizer.TokenId("<s>"), 259);
  EXPECT_EQ(tokenizer.TokenId(" a"), 258);
  EXPECT_EQ(tokenizer.TokenId("Ġa"), std::nullopt);
  EXPECT_EQ(tokenizer.bos(), 259);
  EXPECT_TRUE(tokenizer.add_bos());
  EXPECT_TRUE(tokenizer.is_eos(3));
  EXPECT_FALSE(tokenizer.is_eos(4));
  EXPECT_EQ(tokenizer.Decode(Ids{259, 'a', -5, 99999, 0xE9, 'b'}, ControlTokens::kHide),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(tokenizer.Decode(Ids{259, 'a'}, ControlTokens::kShow), "<s>a");
}

TEST(TokenizerTest, EncodesFromManyThreads) {
  const Tokenizer tokenizer = MakeTestTokenizer("smollm2");
  const std::string text = "Don't panic: 42 naïve façades, 日本語 and \t\n   spaces.";
  const Ids expected = tokenizer.Encode(text, SpecialTokens::kAsText);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  threads.reserve(wrong.size());
  for (int& count : wrong) {
    threads.emplace_back([&tokenizer, &text, &expected, &count] {
      for (int i = 0; i < 200; ++i) {
        count += tokenizer.Encode(text, SpecialTokens::kAsText) == expected ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

/// Processor seconds of this thread, which a busy machine does not stretch.
double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Text made to meet whatever is worse than linear: growing it eightfold may not take 32 times as
/// long. (A quadratic step would take 64 times.)
TEST(TokenizerTest, TakesLinearTimeOnHostileText) {
  std::string marks;  // Two combining classes in turn: the worst order to sort.
  for (int i = 0; i < 64; ++i) marks += "\u0301\u0323";
  const std::vector<std::string> units = {"a",          " ",         "\n",       " \n",     "<",
                                          "<|im_start", "e" + marks, marks,      "!",       "1",
                                          "\u0e33",     "'",         "\xF0\x9F", "aaaaaaab"};
  for (const char* name : {"smollm2", "qwen2.5"}) {
    const Tokenizer tokenizer = MakeTestTokenizer(name);
    const auto seconds = [&](const std::string& text) {
      const double begin = ThreadSeconds();
      tokenizer.Encode(text, SpecialTokens::kParse);
      return ThreadSeconds() - begin;
    };
    for (const std::string& unit : units) {
      std::string small;
      while (small.size() < 8'000) small += unit;
      std::string large;
      for (int i = 0; i < 8; ++i) large += small;
      seconds(small);
      // Whatever else runs takes the cache away: the best of a few tries counts.
      bool linear = false;
      for (int attempt = 0; attempt < 10 && !linear; ++attempt) {
        linear = seconds(large) < 32 * seconds(small) + 2e-3;
      }
      EXPECT_TRUE(linear) << name << ": " << unit;
    }
  }
}

}  // namespace
}  // namespace decant
