#pragma once

#include <string_view>

#include "server/http_exchange.h"

namespace decant {

/// An error in the shape of OpenAI's API: {"error": {"message", "type", "param", "code"}}; an empty
/// param or code becomes null. 429 and 503
/// say when to come back.
HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message,
                           std::string_view param = {}, std::string_view code = {});

}  // namespace decant
