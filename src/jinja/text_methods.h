#pragma once

#include <string_view>

#include "jinja/builtins.h"

namespace decant::jinja {

/// The method `name` of Python's str, or null.
const MethodEntry* FindTextMethod(std::string_view name);

}  // namespace decant::jinja
