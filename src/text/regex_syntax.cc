#include "text/regex_syntax.h"

#include <algorithm>
#include <array>

#include "text/code_points.h"

namespace decant {
namespace {

constexpr std::string_view kSpace = R"(\p{wspace})";
/// Word characters of UTS #18, annex C, as Oniguruma has them in sets; and those of \w elsewhere,
/// which has Latin-1's superscripts and fractions, too.
constexpr std::string_view kPosixWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHex = "0-9a-fA-F";

struct Name {
  std::string_view oniguruma;
  std::string_view pcre;
};

/// Long names of general categories, which PCRE2 has short names for only.
constexpr std::array kCategories = {Name{"Letter", "L"},
                                    Name{"Mark", "M"},
                                    Name{"Number", "N"},
                                    Name{"Punctuation", "P"},
                                    Name{"Symbol", "S"},
                                    Name{"Separator", "Z"},
                                    Name{"Other", "C"},
                                    Name{"Uppercase_Letter", "Lu"},
                                    Name{"Lowercase_Letter", "Ll"},
                                    Name{"Decimal_Number", "Nd"}};

/// Names of three letters and more that are no script.
constexpr std::array<std::string_view, 12> kBinaryProperties = {
    "Alphabetic", "Any",         "Dash",      "Diacritic",   "Emoji",
    "Cased",      "Ideographic", "Lowercase", "White_Space", "Extended_Pictographic",
    "Uppercase",  "Math"};

constexpr std::array kPosix = {Name{"alpha", R"(\p{Alphabetic})"},
                               Name{"digit", R"(\p{Nd})"},
                               Name{"space", kSpace},
                               Name{"upper", R"(\p{Uppercase})"},
                               Name{"lower", R"(\p{Lowercase})"},
                               Name{"alnum", R"(\p{Alphabetic}\p{Nd})"},
                               Name{"word", kPosixWord},
                               Name{"xdigit", kHex}};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Expected<std::string> Translate() {
    while (at_ < pattern_.size()) DECANT_RETURN_IF_ERROR(One());
    return std::move(out_);
  }

 private:
  bool Next(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  void Copy(size_t bytes) {
    out_ += pattern_.substr(at_, bytes);
    at_ += bytes;
  }

  void Replace(size_t bytes, std::string_view with) {
    out_ += with;
    at_ += bytes;
  }

  Status Refuse(std::string_view what) const {
    return Error(StatusCode::kUnimplemented,
                 "the pattern has {} at byte {}, which is not supported", what, at_);
  }

  Status One() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape();
      case '[':
        return Set();
      case '(':
        return Group();
      case '{':
        return Interval();
      default:
        Copy(1);
        return {};
    }
  }

  Status Group() {
    if (Next("(*")) return Refuse("a verb or callout, (*,");
    if (!Next("(?")) {
      Copy(1);
      return {};
    }
    for (const std::string_view kind : {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"}) {
      if (Next(kind)) {
        Copy(kind.size());
        return {};
      }
    }
    if (Next("(?<")) {
      const size_t end = pattern_.find('>', at_);
      if (end == std::string_view::npos) return Refuse("a group's name without its end");
      Replace(end + 1 - at_, "(?:");
      return {};
    }
    size_t end = at_ + 2;
    while (end < pattern_.size() &&
           std::string_view("im-").find(pattern_[end]) != std::string::npos) {
      ++end;
    }
    if (end == pattern_.size() || (pattern_[end] != ':' && pattern_[end] != ')')) {
      return Refuse(fmt::format("the group '{}'", pattern_.substr(at_, 3)));
    }
    for (const size_t last = end; at_ <= last; ++at_) {
      out_ += pattern_[at_] == 'm' ? 's' : pattern_[at_];
    }
    return {};
  }

  /// {n}, {n,}, {n,m} or {,m}; another brace stands for itself.
  Status Interval() {
    size_t end = at_ + 1;
    const auto digits = [&] {
      const size_t begin = end;
      while (end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9') ++end;
      return end - begin;
    };
    const size_t low = digits();
    size_t high = 0;
    const bool comma = end < pattern_.size() && pattern_[end] == ',';
    if (comma) {
      ++end;
      high = digits();
    }
    if (end == pattern_.size() || pattern_[end] != '}' || low + high == 0) {
      Replace(1, R"(\{)");
      return {};
    }
    ++end;
    if (end < pattern_.size() && pattern_[end] == '+') {
      return Refuse("a '+' after an interval");
    }
    const size_t length = end - at_;
    if (low == 0) {
      Replace(1, "{0");
      Copy(length - 1);
    } else {
      Copy(length);
    }
    return {};
  }

  Status Escape() {
    if (at_ + 1 == pattern_.size()) return Refuse("a backslash at its end");
    switch (pattern_[at_ + 1]) {
      case 's':
        Replace(2, kSpace);
        return {};
      case 'w':
        Replace(2, fmt::format("[{}]", kWord));
        return {};
      case 'W':
        Replace(2, fmt::format("[^{}]", kWord));
        return {};
      case 'h':
        Replace(2, fmt::format("[{}]", kHex));
        return {};
      case 'H':
        Replace(2, fmt::format("[^{}]", kHex));
        return {};
      case 'b':
        Replace(2, fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", kWord));
        return {};
      case 'B':
        Replace(2, fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", kWord));
        return {};
      case 'A':
      case 'Z':
      case 'z':
      case 'G':
      case 'R':
      case 'X':
        Copy(2);
        return {};
      default:
        return EscapeInSetToo();
    }
  }

  /// Escapes that mean the same inside and outside of a set.
  Status EscapeInSetToo() {
    const char c = pattern_[at_ + 1];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    switch (c) {
      case 'S':
        Replace(2, R"(\P{wspace})");
        return {};
      case 'd':
        Replace(2, R"(\p{Nd})");
        return {};
      case 'D':
        Replace(2, R"(\P{Nd})");
        return {};
      case 'v':
        Replace(2, R"(\x{b})");
        return {};
      case 'n':
      case 'r':
      case 't':
      case 'f':
      case 'a':
      case 'e':
        Copy(2);
        return {};
      case 'p':
      case 'P':
        return Property();
      case 'x':
        return Hexadecimal();
      case 'u':
        return FourHexadecimal();
      default:
        break;
    }
    if (letter || digit) return Refuse(fmt::format("the escape '\\{}'", c));
    if (static_cast<uint8_t>(c) >= 0x80) {
      Replace(1, "");
      Copy(LengthOfLead(c));
    } else {
      Copy(2);
    }
    return {};
  }

  Status Property() {
    const size_t end = pattern_.find('}', at_);
    if (at_ + 2 >= pattern_.size() || pattern_[at_ + 2] != '{' || end == std::string_view::npos) {
      return Refuse("\\p without a name in braces");
    }
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    for (const Name& known : kCategories) {
      if (name == known.oniguruma) name = known.pcre;
    }
    // PCRE2 by itself reads a script's name as Script_Extensions.
    const bool script =
        name.size() > 2 && std::find(kBinaryProperties.begin(), kBinaryProperties.end(), name) ==
                               kBinaryProperties.end();
    Replace(end + 1 - at_, fmt::format("\\{}{{{}{}{}}}", pattern_[at_ + 1], negated ? "^" : "",
                                       script ? "sc:" : "", name));
    return {};
  }

  size_t HexDigits(size_t from, size_t most) const {
    size_t count = 0;
    while (count < most && from + count < pattern_.size() &&
           std::string_view("0123456789abcdefABCDEF").find(pattern_[from + count]) !=
               std::string_view::npos) {
      ++count;
    }
    return count;
  }

  Status Hexadecimal() {
    if (at_ + 2 < pattern_.size() && pattern_[at_ + 2] == '{') {
      const size_t digits = HexDigits(at_ + 3, 8);
      const size_t end = at_ + 3 + digits;
      if (digits == 0 || end >= pattern_.size() || pattern_[end] != '}') {
        return Refuse("\\x without a hexadecimal number in braces");
      }
      Copy(end + 1 - at_);
      return {};
    }
    const size_t digits = HexDigits(at_ + 2, 2);
    // Two digits are a byte, not a code point, which only below 0x80 is the same.
    if (digits == 0 || (digits == 2 && pattern_[at_ + 2] >= '8')) {
      return Refuse("\\x of a byte that is no character");
    }
    Copy(2 + digits);
    return {};
  }

  Status FourHexadecimal() {
    if (HexDigits(at_ + 2, 4) != 4) return Refuse("\\u without four hexadecimal digits");
    Replace(6, fmt::format("\\x{{{}}}", pattern_.substr(at_ + 2, 4)));
    return {};
  }

  Status Set() {
    Copy(1);
    if (Next("^")) Copy(1);
    if (Next("]")) return Refuse("an empty set");
    while (at_ < pattern_.size()) {
      switch (pattern_[at_]) {
        case ']':
          Copy(1);
          return {};
        case '[':
          DECANT_RETURN_IF_ERROR(Posix());
          break;
        case '\\':
          DECANT_RETURN_IF_ERROR(EscapeInSet());
          break;
        case '&':
          if (Next("&&")) return Refuse("an intersection of sets, &&,");
          Copy(1);
          break;
        default:
          Copy(1);
      }
    }
    return Refuse("a set without its end");
  }

  Status Posix() {
    const size_t end = pattern_.find(":]", at_);
    if (!Next("[:") || end == std::string_view::npos) return Refuse("a set inside a set");
    const std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    for (const Name& known : kPosix) {
      if (name == known.oniguruma) {
        Replace(end + 2 - at_, known.pcre);
        return {};
      }
    }
    return Refuse(fmt::format("the bracket '[:{}:]'", name));
  }

  Status EscapeInSet() {
    if (at_ + 1 == pattern_.size()) return Refuse("a backslash at its end");
    switch (pattern_[at_ + 1]) {
      case 's':
        Replace(2, kSpace);
        return {};
      case 'w':
        Replace(2, kPosixWord);
        return {};
      case 'h':
        Replace(2, kHex);
        return {};
      case 'b':
        Copy(2);
        return {};
      default:
        return EscapeInSetToo();
    }
  }

  std::string_view pattern_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

Expected<std::string> PcreFromOniguruma(std::string_view pattern) {
  return Translator(pattern).Translate();
}

std::string QuoteForPcre(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (std::string_view(R"(\^$.[]|()?*+{}-#)").find(c) != std::string_view::npos) quoted += '\\';
    quoted += c;
  }
  return quoted;
}

}  // namespace decant
