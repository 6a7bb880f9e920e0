#include "text/utf8.h"

#include <gtest/gtest.h>

#include <string>

#include "text/byte_symbols.h"
#include "text/unicode_form.h"

namespace decant {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Utf8Test, RepairsMaximalSubparts) {
  // Expected: Python's bytes.decode("utf-8", "replace").
  EXPECT_EQ(RepairUtf8("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"), "aé€😀");
  EXPECT_EQ(RepairUtf8("\x80\xBF"), kBad + kBad);
  EXPECT_EQ(RepairUtf8("\xC0\xAF"), kBad + kBad);
  EXPECT_EQ(RepairUtf8("\xE0\x80\xAF"), kBad + kBad + kBad);
  EXPECT_EQ(RepairUtf8("\xED\xA0\x80"), kBad + kBad + kBad);
  EXPECT_EQ(RepairUtf8("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);
  EXPECT_EQ(RepairUtf8("\xF5x"), kBad + "x");
  EXPECT_EQ(RepairUtf8("\xE2\x82x"), kBad + "x");
  EXPECT_EQ(RepairUtf8("\xF0\x9F\x98\xE2\x82\xAC"), kBad + "€");
  EXPECT_EQ(RepairUtf8("x\xF0\x9F\x98"), "x" + kBad);
  EXPECT_EQ(RepairUtf8(std::string("\0a", 2)), std::string("\0a", 2));
}

TEST(Utf8Test, LeavesOnlyWhatMoreBytesCouldComplete) {
  const auto left = [](std::string_view bytes) {
    std::string out;
    return AppendCompleteUtf8(bytes, out);
  };
  EXPECT_EQ(left("a\xE2\x82"), 2U);
  EXPECT_EQ(left("\xF0\x9F\x98"), 3U);
  EXPECT_EQ(left("\xC3"), 1U);
  EXPECT_EQ(left("\xE0\x80"), 0U);
  EXPECT_EQ(left("\xF5"), 0U);
  EXPECT_EQ(left("é"), 0U);
}

TEST(Utf8Test, WritesEveryCodePointAsItReadsIt) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    AppendUtf8(c, text);
    const Utf8Unit unit = ReadUtf8(text);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_EQ(unit.kind, Utf8Kind::kInvalid);
    } else {
      ASSERT_EQ(unit.kind, Utf8Kind::kValid);
      ASSERT_EQ(unit.code_point, c);
      ASSERT_EQ(unit.length, text.size());
    }
  }
}

TEST(ByteSymbolsTest, SpellsEveryByteOnce) {
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ByteOfSymbol(SymbolOfByte(static_cast<uint8_t>(byte))), byte);
  }
  EXPECT_EQ(SymbolOfByte(' '), U'Ġ');
  EXPECT_EQ(SymbolOfByte('\n'), U'Ċ');
  EXPECT_EQ(ByteOfSymbol(U' '), std::nullopt);
  EXPECT_EQ(ByteOfSymbol(0x144), std::nullopt);
  EXPECT_EQ(BytesOfSpelling("ĠhÃ©"), " hé");
  EXPECT_EQ(BytesOfSpelling("a b"), "a b");
}

TEST(NfcTest, ComposesInCanonicalOrder) {
  EXPECT_EQ(NormalizeUnicode("e\u0301", UnicodeForm::kNfc), "é");
  EXPECT_EQ(NormalizeUnicode("q\u0307\u0323", UnicodeForm::kNfc), "q\u0323\u0307");
  EXPECT_EQ(NormalizeUnicode("\u1E0B\u0323", UnicodeForm::kNfc), "\u1E0D\u0307");
  EXPECT_EQ(NormalizeUnicode("\u1100\u1161\u11A8", UnicodeForm::kNfc), "각");
  EXPECT_EQ(NormalizeUnicode("\u212B\uF900\u0958", UnicodeForm::kNfc), "\u00C5\u8C48\u0915\u093C");
  EXPECT_EQ(NormalizeUnicode(std::string("a\0e\u0301", 5), UnicodeForm::kNfc),
            std::string("a\0é", 4));
  EXPECT_TRUE(IsPlainly("naïve", UnicodeForm::kNfc));
  EXPECT_FALSE(IsPlainly("e\u0301", UnicodeForm::kNfc));
}

}  // namespace
}  // namespace decant
