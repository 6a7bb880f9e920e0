#include "text/code_points.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/utf8.h"

namespace decant {
namespace {

constexpr char32_t kCodePoints = 0x110000;

struct Range {
  char32_t first;
  char32_t last;
};

/// PropList.txt; unchanged since Unicode 6.3.
constexpr std::array kWhiteSpace = {
    Range{0x9, 0xD},       Range{0x20, 0x20},     Range{0x85, 0x85},     Range{0xA0, 0xA0},
    Range{0x1680, 0x1680}, Range{0x2000, 0x200A}, Range{0x2028, 0x2029}, Range{0x202F, 0x202F},
    Range{0x205F, 0x205F}, Range{0x3000, 0x3000}};

/// Word characters outside the categories L, M, Nd, Nl and Pc: Other_Alphabetic symbols and
/// Join_Control (PropList.txt 14.0).
constexpr std::array kOtherWord = {Range{0x200C, 0x200D}, Range{0x24B6, 0x24E9},
                                   Range{0x1F130, 0x1F149}, Range{0x1F150, 0x1F169},
                                   Range{0x1F170, 0x1F189}};

constexpr std::string_view kAsciiPunctuation = R"(!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~)";

uint8_t ClassesOfCategory(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kLetterClass | kWordClass;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kWordClass;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      return kNumberClass | kWordClass;
    case UTF8PROC_CATEGORY_NO:
      return kNumberClass;
    case UTF8PROC_CATEGORY_PC:
      return kPunctuationClass | kWordClass;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kPunctuationClass;
    default:
      return 0;
  }
}

std::vector<uint8_t> MakeClasses() {
  std::vector<uint8_t> classes(kCodePoints);
  for (char32_t c = 0; c < kCodePoints; ++c) {
    classes[c] = ClassesOfCategory(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
  }
  for (const Range& range : kWhiteSpace) {
    for (char32_t c = range.first; c <= range.last; ++c) classes[c] |= kSpaceClass;
  }
  for (const Range& range : kOtherWord) {
    for (char32_t c = range.first; c <= range.last; ++c) classes[c] |= kWordClass;
  }
  for (const char c : kAsciiPunctuation) classes[static_cast<uint8_t>(c)] |= kPunctuationClass;
  return classes;
}

}  // namespace

uint8_t ClassesOf(char32_t code_point) {
  // A megabyte, made once in some milliseconds: a search in ranges would take longer per letter
  // than all else that splitting does.
  static const std::vector<uint8_t> kClasses = MakeClasses();
  return code_point < kCodePoints ? kClasses[code_point] : 0;
}

uint8_t ClassesOfFirst(std::string_view utf8) { return ClassesOf(ReadUtf8(utf8).code_point); }

uint8_t ClassesOfLast(std::string_view utf8) {
  return ClassesOfFirst(utf8.substr(utf8.size() - LengthOfLast(utf8)));
}

}  // namespace decant
