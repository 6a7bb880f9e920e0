#include "text/piece_scanner.h"

#include <algorithm>
#include <array>

#include "text/code_points.h"
#include "text/known_patterns.h"

namespace decant {
namespace {

constexpr uint8_t kNotOther = kLetterClass | kNumberClass | kSpaceClass;

constexpr std::array<uint8_t, 128> MakeAscii() {
  std::array<uint8_t, 128> classes{};
  for (size_t c = 'a'; c <= 'z'; ++c) classes[c] = kLetterClass;
  for (size_t c = 'A'; c <= 'Z'; ++c) classes[c] = kLetterClass;
  for (size_t c = '0'; c <= '9'; ++c) classes[c] = kNumberClass;
  for (size_t c = 0x9; c <= 0xD; ++c) classes[c] = kSpaceClass;
  classes[' '] = kSpaceClass;
  return classes;
}
constexpr std::array<uint8_t, 128> kAscii = MakeAscii();

/// Letter, number and space bits of the code point at `at`.
uint8_t ClassAt(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  return byte < 0x80 ? kAscii[byte] : ClassesOfFirst(text.substr(at)) & kNotOther;
}

/// The end of the code points from `at` on that have a class of `mask`, or that have none, as
/// `wanted` says.
size_t RunEnd(std::string_view text, size_t at, uint8_t mask, bool wanted) {
  while (at < text.size() && ((ClassAt(text, at) & mask) != 0) == wanted) {
    at += LengthOfLead(text[at]);
  }
  return at;
}

bool IsLineEnd(char c) { return c == '\r' || c == '\n'; }

/// 's, 't, 're, 've, 'm, 'll, 'd: its length, or 0.
size_t ContractionLength(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  switch (text[1]) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return text.size() > 2 && text[2] == 'e' ? 3 : 0;
    case 'l':
      return text.size() > 2 && text[2] == 'l' ? 3 : 0;
    default:
      return 0;
  }
}

/// The same in either case; U+017F is an s, too.
size_t AnyCaseContractionLength(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  if (text.substr(1).starts_with("\u017F")) return 3;
  char lower[3] = {'\'', 0, 0};
  const size_t size = std::min<size_t>(text.size(), 3);
  for (size_t i = 1; i < size; ++i) {
    lower[i] = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] - 'A' + 'a') : text[i];
  }
  return ContractionLength({lower, size});
}

/// `\s+(?!\S)|\s+`, for white space in front: all but the last character of a run before other
/// text.
size_t SpaceLength(std::string_view text, size_t run) {
  if (run == text.size()) return run;
  const size_t last = LengthOfLast(text.substr(0, run));
  return run > last ? run - last : run;
}

size_t Gpt2Length(std::string_view text) {
  if (const size_t length = ContractionLength(text); length > 0) return length;
  size_t at = 0;
  uint8_t first = ClassAt(text, 0);
  if (text[0] == ' ' && text.size() > 1 && (ClassAt(text, 1) & kSpaceClass) == 0) {
    at = 1;
    first = ClassAt(text, 1);
  }
  if ((first & kLetterClass) != 0) return RunEnd(text, at, kLetterClass, true);
  if ((first & kNumberClass) != 0) return RunEnd(text, at, kNumberClass, true);
  if ((first & kSpaceClass) == 0) return RunEnd(text, at, kNotOther, false);
  return SpaceLength(text, RunEnd(text, 0, kSpaceClass, true));
}

size_t Qwen2Length(std::string_view text, size_t most_digits) {
  if (const size_t length = AnyCaseContractionLength(text); length > 0) return length;
  const uint8_t first = ClassAt(text, 0);
  if ((first & kLetterClass) != 0) return RunEnd(text, 0, kLetterClass, true);
  if ((first & kNumberClass) != 0) {
    size_t at = 0;
    for (size_t digits = 0;
         digits < most_digits && at < text.size() && (ClassAt(text, at) & kNumberClass) != 0;
         ++digits) {
      at += LengthOfLead(text[at]);
    }
    return at;
  }
  const size_t second = LengthOfLead(text[0]);
  if (second < text.size() && !IsLineEnd(text[0]) && (ClassAt(text, second) & kLetterClass) != 0) {
    return RunEnd(text, second, kLetterClass, true);
  }
  const bool spaced = text[0] == ' ' && text.size() > 1 && (ClassAt(text, 1) & kNotOther) == 0;
  if ((first & kSpaceClass) == 0 || spaced) {
    size_t at = RunEnd(text, spaced ? 1 : 0, kNotOther, false);
    while (at < text.size() && IsLineEnd(text[at])) ++at;
    return at;
  }
  const size_t run = RunEnd(text, 0, kSpaceClass, true);
  const size_t line_end = text.substr(0, run).find_last_of("\r\n");
  return line_end != std::string_view::npos ? line_end + 1 : SpaceLength(text, run);
}

}  // namespace

std::optional<PieceScanner> PieceScanner::Of(const TextPattern& pattern) {
  if (pattern.kind != TextPattern::Kind::kRegex) return std::nullopt;
  if (pattern.text == kGpt2Pattern) return PieceScanner(Kind::kGpt2);
  if (pattern.text == kQwen2Pattern) return PieceScanner(Kind::kQwen2);
  if (pattern.text == kLlama3Pattern) return PieceScanner(Kind::kLlama3);
  return std::nullopt;
}

size_t PieceScanner::PieceLength(std::string_view text) const {
  switch (kind_) {
    case Kind::kGpt2:
      return Gpt2Length(text);
    case Kind::kQwen2:
      return Qwen2Length(text, 1);
    case Kind::kLlama3:
      return Qwen2Length(text, 3);
  }
  return text.size();
}

}  // namespace decant
