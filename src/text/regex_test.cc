#include "text/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "text/known_patterns.h"
#include "text/piece_scanner.h"
#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace decant {
namespace {

Expected<Regex> Compile(const std::string& text) {
  return Regex::Compile({TextPattern::Kind::kRegex, text});
}

std::vector<std::string> FindAll(const Regex& regex, const std::string& text) {
  std::vector<std::string> found;
  Regex::Finder finder(regex, text);
  while (const auto match = finder.Next()) {
    found.push_back(text.substr(match->begin, match->end - match->begin));
  }
  return found;
}

TEST(RegexTest, ReadsOnigurumasSyntax) {
  const std::vector<std::pair<std::string, std::string>> same = {
      {R"(\s[\s\S])", R"(\p{wspace}[\p{wspace}\P{wspace}])"},
      {R"((?m:.)(?<n>a))", R"((?s:.)(?:a))"},
      {R"(\h\d[[:digit:]\h])", R"([0-9a-fA-F]\p{Nd}[\p{Nd}0-9a-fA-F])"},
      {R"(a{,3}b{2,}c{x}\u00e9\p{^Letter}\p{Han})", R"(a{0,3}b{2,}c\{x}\x{00e9}\p{^L}\p{sc:Han})"},
      {"\\é", "é"}};
  for (const auto& [oniguruma, pcre] : same) {
    EXPECT_EQ(PcreFromOniguruma(oniguruma).value(), pcre);
  }
}

TEST(RegexTest, RefusesByName) {
  struct Case {
    std::string pattern;
    StatusCode code;
    std::string message;
  };
  const std::vector<Case> cases = {
      {"", StatusCode::kInvalidArgument, "0 bytes"},
      {std::string(70'000, 'a'), StatusCode::kInvalidArgument, "70000 bytes"},
      {"\xFF", StatusCode::kInvalidArgument, "not UTF-8"},
      {"(", StatusCode::kInvalidArgument, "missing closing parenthesis"},
      {"a{2}{99999}", StatusCode::kInvalidArgument, "number too big"},
      {R"(\p{Nonsense})", StatusCode::kInvalidArgument, "unknown property"},
      {std::string(300, '(') + std::string(300, ')'), StatusCode::kInvalidArgument, "nested"},
      {"[a&&b]", StatusCode::kUnimplemented, "intersection"},
      {"[a[b]]", StatusCode::kUnimplemented, "a set inside a set"},
      {"[[:graph:]]", StatusCode::kUnimplemented, "graph"},
      {"[", StatusCode::kUnimplemented, "without its end"},
      {"[]", StatusCode::kUnimplemented, "an empty set"},
      {"a\\", StatusCode::kUnimplemented, "a backslash at its end"},
      {R"((a)\1)", StatusCode::kUnimplemented, R"(the escape '\1')"},
      {R"(\g<1>)", StatusCode::kUnimplemented, R"(the escape '\g')"},
      {R"([\W])", StatusCode::kUnimplemented, R"(the escape '\W')"},
      {R"(\xFF)", StatusCode::kUnimplemented, "no character"},
      {"(*ACCEPT)a", StatusCode::kUnimplemented, "verb"},
      {"(?x: a)", StatusCode::kUnimplemented, "the group"},
      {"(?C1)a", StatusCode::kUnimplemented, "the group"},
      {"a{2}+", StatusCode::kUnimplemented, "after an interval"},
      {"(a+)+$", StatusCode::kUnimplemented, "grows faster than the text"},
      {"(a|a)*b", StatusCode::kUnimplemented, "grows faster than the text"},
      {R"(\s*x)", StatusCode::kUnimplemented, "grows faster than the text"},
      {"a.*!", StatusCode::kUnimplemented, "grows faster than the text"},
  };
  for (const Case& c : cases) {
    const Status status = Compile(c.pattern).status();
    EXPECT_EQ(status.code(), c.code) << c.pattern << ": " << status.ToString();
    EXPECT_NE(status.message().find(c.message), std::string::npos)
        << c.pattern << ": " << status.ToString() << "\nshould hold: " << c.message;
  }
}

TEST(RegexTest, FindsTrailingSpaceInLinearTime) {
  const Regex regex = Compile(R"(\s+$)").value();
  EXPECT_EQ(FindAll(regex, " a  \n\n b  "), (std::vector<std::string>{"  \n", "  "}));
  EXPECT_EQ(FindAll(regex, std::string(1'000'000, ' ') + "1").size(), 0U);
}

TEST(RegexTest, GivesUpOnWhatNeedsTooMuchMemory) {
  // A group that repeats keeps something for each turn; the stack of the compiled code, and then
  // the interpreter's memory, is limited.
  const Regex regex = Compile("(?:ab|c)+").value();
  std::string text;
  for (int i = 0; i < 5'000'000; ++i) text += "ab";
  EXPECT_LE(FindAll(regex, text).size(), 1U);
  EXPECT_EQ(FindAll(regex, "ababcx").size(), 1U);
}

TEST(PieceScannerTest, CutsAsThePatternDoes) {
  const CounterRng rng(23);
  uint64_t counter = 0;
  const auto below = [&](uint64_t bound) { return rng.Below(counter++, bound); };
  const std::vector<std::string> likely = {
      "a",          "B",  "é",      "\u0301", "中",     "1",      "½",      "٣",     " ",
      " ",          "\n", "\r",     "\t",     "'",      "'",      "s",      "S",     "\u017F",
      "l",          "L",  "\u212A", "\u00a0", "\u3000", "\u180e", "!",      "_",     "-",
      "\U0001F600", "t",  "re",     "VE",     "m",      "d",      "\u0085", "\u200b"};
  for (const std::string_view pattern : {kGpt2Pattern, kQwen2Pattern, kLlama3Pattern}) {
    const TextPattern known{TextPattern::Kind::kRegex, std::string(pattern)};
    const PieceScanner scanner = PieceScanner::Of(known).value();
    const Regex regex = Regex::Compile(known).value();
    for (int round = 0; round < 20'000; ++round) {
      std::string text;
      for (uint64_t n = 1 + below(12); n > 0; --n) {
        if (below(8) > 0) {
          text += likely[below(likely.size())];
        } else {
          // Two letters of Unicode 15 that PCRE2 does not know.
          const auto c = static_cast<char32_t>(below(0x3000));
          if (c != 0xCF3 && c != 0xECE) AppendUtf8(c, text);
        }
      }
      std::vector<std::string> pieces;
      for (std::string_view rest = text; !rest.empty();) {
        const size_t length = scanner.PieceLength(rest);
        ASSERT_GT(length, 0U);
        pieces.emplace_back(rest.substr(0, length));
        rest.remove_prefix(length);
      }
      ASSERT_EQ(pieces, FindAll(regex, text)) << text;
    }
  }
}

}  // namespace
}  // namespace decant
