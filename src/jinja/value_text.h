#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "jinja/budget.h"
#include "jinja/value.h"

namespace decant::jinja {

/// Python's str(): what {{ value }} prints. Fails for what has no stable text (functions,
/// namespaces, generators).
std::string ToText(Budget& budget, const Value& value);

/// Appends str() of `value` to `out`, counted as work.
void AppendText(Budget& budget, const Value& value, std::string& out);

/// Python's repr() of a float: the shortest digits that read back the same, "1.0", "1e+16", "inf".
std::string FloatText(double value);

/// The text of a str, which must be one: `use` is named in the failure, as for Markup, whose
/// escaping this subset does not have.
const std::string& PlainText(const Value& value, std::string_view use);

/// Python's str.splitlines(): without the line ends.
std::vector<std::string_view> SplitLines(std::string_view text);

/// Python's str.strip() and its halves. Without `characters`, whitespace.
enum class StripSides { kLeft, kRight, kBoth };
std::string_view Strip(std::string_view text, const std::string* characters, StripSides sides);

/// The first place of `needle` at or behind `from`, or npos. Linear time.
size_t Find(std::string_view text, std::string_view needle, size_t from);

/// Python's str.replace(); a negative `count` means all.
std::string Replace(Budget& budget, std::string_view text, std::string_view from,
                    std::string_view to, int64_t count);

/// The characters of a text.
std::vector<Value> Characters(Budget& budget, std::string_view text);

}  // namespace decant::jinja
