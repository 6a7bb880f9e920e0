#pragma once

#include "jinja/builtins.h"

namespace decant::jinja {

// The filters that make text, or numbers of text. FindFilter lists them all.

Value FilterTrim(Context& context, const Value& input, const Arguments& arguments);
Value FilterUpper(Context& context, const Value& input, const Arguments& arguments);
Value FilterLower(Context& context, const Value& input, const Arguments& arguments);
Value FilterTitle(Context& context, const Value& input, const Arguments& arguments);
Value FilterCapitalize(Context& context, const Value& input, const Arguments& arguments);
Value FilterReplace(Context& context, const Value& input, const Arguments& arguments);
Value FilterIndent(Context& context, const Value& input, const Arguments& arguments);
Value FilterString(Context& context, const Value& input, const Arguments& arguments);
Value FilterSafe(Context& context, const Value& input, const Arguments& arguments);
Value FilterEscape(Context& context, const Value& input, const Arguments& arguments);
Value FilterToJson(Context& context, const Value& input, const Arguments& arguments);
Value FilterInt(Context& context, const Value& input, const Arguments& arguments);
Value FilterFloat(Context& context, const Value& input, const Arguments& arguments);
Value FilterRound(Context& context, const Value& input, const Arguments& arguments);
Value FilterAbs(Context& context, const Value& input, const Arguments& arguments);

}  // namespace decant::jinja
