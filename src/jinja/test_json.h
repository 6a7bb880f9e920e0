#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "jinja/value.h"

namespace decant::jinja {

/// The JSON of a gzip file of tests/data; aborts where there is none.
nlohmann::json ReadGzJson(const std::string& name);

/// The variables in a JSON object; aborts where the text is none.
Dict Variables(const std::string& json);

}  // namespace decant::jinja
