#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>

#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/text_filters.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

/// `text` without whitespace around it and without underscores between digits; nullopt where an
/// underscore stands elsewhere or a character is not ASCII.
std::optional<std::string> NumberText(std::string_view text) {
  text = Strip(text, nullptr, StripSides::kBoth);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      if (IsDecimal(ReadCodePoint(text, i))) Refuse("a number in digits other than 0 to 9");
      return std::nullopt;
    }
    if (c != '_') {
      out.push_back(c);
      continue;
    }
    const auto alphanumeric = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !alphanumeric(i - 1) || !alphanumeric(i + 1)) return std::nullopt;
  }
  return out;
}

/// Python's int(text, base); nullopt for what it refuses.
std::optional<int64_t> ParseInt(std::string_view text, int base) {
  std::optional<std::string> digits = NumberText(text);
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  const bool negative = digits->front() == '-';
  if (negative || digits->front() == '+') digits->erase(0, 1);
  if (digits->size() > 2 && digits->front() == '0') {
    const auto prefix = static_cast<char>(std::tolower(static_cast<unsigned char>((*digits)[1])));
    if ((base == 16 && prefix == 'x') || (base == 8 && prefix == 'o') ||
        (base == 2 && prefix == 'b')) {
      digits->erase(0, 2);
    }
  }
  // from_chars takes a '-' of its own.
  if (digits->empty() || !std::isalnum(static_cast<unsigned char>(digits->front()))) {
    return std::nullopt;
  }
  if (negative) digits->insert(0, 1, '-');
  int64_t value = 0;
  const char* end = digits->data() + digits->size();
  const auto result = std::from_chars(digits->data(), end, value, base);
  if (result.ptr != end) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) Refuse("int: beyond 64 bits");
  return result.ec == std::errc() ? std::optional(value) : std::nullopt;
}

/// Python's float(text); nullopt for what it refuses.
std::optional<double> ParseFloat(std::string_view text) {
  const std::optional<std::string> digits = NumberText(text);
  if (!digits.has_value() || digits->empty()) return std::nullopt;
  // strtod also reads hexadecimal floats and nan(...), which Python does not.
  if (digits->find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(digits->c_str(), &end);
  if (end != digits->c_str() + digits->size()) return std::nullopt;
  return value;
}

int64_t TruncateFloat(double value) {
  // 2^63 is a double; the largest int64_t is not.
  constexpr double kLimit = 9223372036854775808.0;
  if (std::isinf(value)) Fail("int of an infinite float");
  if (value >= kLimit || value < -kLimit) Refuse("int: beyond 64 bits");
  return static_cast<int64_t>(value);
}

/// Python's round(): to the nearest decimal of `digits` places, judged by the exact binary value.
double RoundTo(double value, int digits) {
  if (!std::isfinite(value)) return value;
  return std::strtod(fmt::format("{:.{}f}", value, digits).c_str(), nullptr);
}

}  // namespace

Value FilterInt(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("int", arguments, {"default", "base"});
  Value otherwise = given[0] == nullptr ? Value(int64_t{0}) : *given[0];
  if (input.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(input));
  if (IsInteger(input)) return Value(ToInteger(input, "int"));
  if (input.is(Value::Kind::kFloat)) {
    if (std::isnan(input.floating())) return otherwise;
    return Value(TruncateFloat(input.floating()));
  }
  if (!input.is(Value::Kind::kText)) return otherwise;
  const int64_t base = given[1] == nullptr ? 10 : ToInteger(*given[1], "int");
  if (base < 2 || base > 36) Refuse("int with base {}", base);
  const std::string& text = PlainText(input, "int");
  context.budget.Work(text.size());
  if (const auto value = ParseInt(text, static_cast<int>(base))) return Value(*value);
  const std::optional<double> value = ParseFloat(text);
  if (!value.has_value() || !std::isfinite(*value)) return otherwise;
  return Value(TruncateFloat(*value));
}

Value FilterFloat(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("float", arguments, {"default"});
  Value otherwise = given[0] == nullptr ? Value(0.0) : *given[0];
  if (input.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(input));
  if (IsNumber(input)) return Value(ToFloat(input));
  if (!input.is(Value::Kind::kText)) return otherwise;
  const std::string& text = PlainText(input, "float");
  context.budget.Work(text.size());
  const std::optional<double> value = ParseFloat(text);
  return value.has_value() ? Value(*value) : otherwise;
}

Value FilterRound(Context& /*context*/, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("round", arguments, {"precision", "method"});
  const int64_t precision = given[0] == nullptr ? 0 : ToInteger(*given[0], "round");
  const std::string method = given[1] == nullptr ? "common" : PlainText(*given[1], "round");
  if (method != "common" && method != "ceil" && method != "floor") {
    Fail("round's method must be common, ceil or floor, not '{}'", method);
  }
  if (precision < 0 || precision > 100) Refuse("round to {} places", precision);
  if (input.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(input));
  if (!IsNumber(input)) Fail("round needs a number, not {}", TypeName(input));
  if (method == "common") {
    if (IsInteger(input)) return Value(ToInteger(input, "round"));
    return Value(RoundTo(input.floating(), static_cast<int>(precision)));
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = ToFloat(input) * scale;
  if (!std::isfinite(scaled)) Fail("round of a float that is not finite");
  // Python's ceil and floor are ints, which have no -0.
  return Value(((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) + 0.0) / scale);
}

Value FilterAbs(Context& /*context*/, const Value& input, const Arguments& arguments) {
  BindArguments("abs", arguments, {});
  if (input.is(Value::Kind::kFloat)) return Value(std::fabs(input.floating()));
  const int64_t value = ToInteger(input, "abs");
  if (value == std::numeric_limits<int64_t>::min()) Refuse("abs: beyond 64 bits");
  return Value(value < 0 ? -value : value);
}

}  // namespace decant::jinja
