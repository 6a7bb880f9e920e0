#pragma once

#include "jinja/builtins.h"

namespace decant::jinja {

// The filters over what can be iterated. FindFilter lists them all.

Value FilterDefault(Context& context, const Value& input, const Arguments& arguments);
Value FilterLength(Context& context, const Value& input, const Arguments& arguments);
Value FilterFirst(Context& context, const Value& input, const Arguments& arguments);
Value FilterLast(Context& context, const Value& input, const Arguments& arguments);
Value FilterJoin(Context& context, const Value& input, const Arguments& arguments);
Value FilterList(Context& context, const Value& input, const Arguments& arguments);
Value FilterItems(Context& context, const Value& input, const Arguments& arguments);
Value FilterMap(Context& context, const Value& input, const Arguments& arguments);
Value FilterSelect(Context& context, const Value& input, const Arguments& arguments);
Value FilterReject(Context& context, const Value& input, const Arguments& arguments);
Value FilterSelectAttr(Context& context, const Value& input, const Arguments& arguments);
Value FilterRejectAttr(Context& context, const Value& input, const Arguments& arguments);
Value FilterReverse(Context& context, const Value& input, const Arguments& arguments);
Value FilterSum(Context& context, const Value& input, const Arguments& arguments);
Value FilterAttr(Context& context, const Value& input, const Arguments& arguments);
Value FilterSort(Context& context, const Value& input, const Arguments& arguments);
Value FilterDictSort(Context& context, const Value& input, const Arguments& arguments);
Value FilterUnique(Context& context, const Value& input, const Arguments& arguments);
Value FilterMin(Context& context, const Value& input, const Arguments& arguments);
Value FilterMax(Context& context, const Value& input, const Arguments& arguments);

/// The value at a path of attributes and indices, "a.b.0", as the attribute= of filters has it;
/// `otherwise`, unless null, in place of what is undefined on the way.
Value ReadPath(Context& context, const Value& item, const Value& path,
               const Value* otherwise = nullptr);

}  // namespace decant::jinja
