#pragma once

#include <optional>
#include <string_view>

#include "jinja/builtins.h"
#include "jinja/value.h"

namespace decant::jinja {

// How jinja2's sandbox reads object.name and object[index]: what is missing is undefined, and a
// method goes before a dict's entry for `.`, behind it for `[]`.

Value GetAttribute(Context& context, const Value& object, std::string_view name);
Value GetItem(Context& context, const Value& object, const Value& index);

/// object[start:stop:step] of a str, list or tuple; null and none mean left out.
Value GetSlice(Context& context, const Value& object, const Value* start, const Value* stop,
               const Value* step);

}  // namespace decant::jinja
