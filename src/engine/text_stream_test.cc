#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace decant {
namespace {

constexpr Token kA = 0;
constexpr Token kAb = 8;
constexpr Token kCde = 9;
constexpr Token kFirstHalf = 11;
constexpr Token kSecondHalf = 12;

TextStream MakeStream(const Tokenizer& tokenizer, std::vector<std::string> stops) {
  return {tokenizer, StopMatcher::Create(std::move(stops)).value()};
}

TEST(TextStreamTest, ShowsWholeCodePointsOnly) {
  const auto tokenizer = MakeTestTokenizer();
  TextStream stream = MakeStream(*tokenizer, {});
  EXPECT_EQ(stream.Push(kA).text, "a");
  EXPECT_EQ(stream.Push(kFirstHalf).text, "");
  EXPECT_EQ(stream.Push(kSecondHalf).text, "é");
  EXPECT_EQ(stream.Push(kFirstHalf).text, "");
  EXPECT_EQ(stream.Finish().text, "\uFFFD");
}

TEST(TextStreamTest, EndsBeforeAStopStringThatSpansTokens) {
  const auto tokenizer = MakeTestTokenizer();
  TextStream stream = MakeStream(*tokenizer, {"bcd"});
  EXPECT_EQ(stream.Push(kAb).text, "a") << "b may begin the stop string";
  const TextStream::Piece piece = stream.Push(kCde);
  EXPECT_EQ(piece.text, "");
  EXPECT_TRUE(piece.stopped);
  EXPECT_EQ(stream.Finish().text, "") << "nothing follows a stop";
}

TEST(TextStreamTest, TheLastTokenLetsGoOfWhatWasHeld) {
  const auto tokenizer = MakeTestTokenizer();
  TextStream stream = MakeStream(*tokenizer, {"abab!"});
  EXPECT_EQ(stream.Push(kAb).text, "");
  const TextStream::Piece piece = stream.PushLast(kAb);
  EXPECT_EQ(piece.text, "abab");
  EXPECT_FALSE(piece.stopped);
}

TEST(TextStreamTest, TheLastTokenMayCompleteAStopString) {
  const auto tokenizer = MakeTestTokenizer();
  TextStream stream = MakeStream(*tokenizer, {"ba", "b\uFFFD"});
  EXPECT_EQ(stream.Push(kAb).text, "a");
  const TextStream::Piece piece = stream.PushLast(kFirstHalf);
  EXPECT_EQ(piece.text, "");
  EXPECT_TRUE(piece.stopped);
}

}  // namespace
}  // namespace decant
