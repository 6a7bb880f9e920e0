#pragma once

#include <string>
#include <string_view>

#include "server/http_exchange.h"

namespace decant {

// What an error's "type" may be.
inline constexpr std::string_view kInvalidRequest = "invalid_request_error";
inline constexpr std::string_view kAuthenticationError = "authentication_error";
inline constexpr std::string_view kNotFoundError = "not_found_error";
inline constexpr std::string_view kRateLimitError = "rate_limit_error";
inline constexpr std::string_view kUnavailableError = "service_unavailable_error";
inline constexpr std::string_view kServerError = "server_error";

/// Why a request gets no answer, as OpenAI's API says it.
struct ApiError {
  int status = 400;
  std::string_view type = kInvalidRequest;  ///< One of the above.
  std::string message{};
  std::string param{};  ///< The parameter at fault; empty: null.
  std::string code{};   ///< A word for programs; empty: null.
};

/// {"error": {"message", "type", "param", "code"}}.
std::string ErrorJson(const ApiError& error);

/// The same as a whole response. 429 and 503 say when to come back.
HttpResponse ErrorResponse(const ApiError& error);

/// Empty `param` and `code` become null.
HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message,
                           std::string_view param = {}, std::string_view code = {});

}  // namespace decant
