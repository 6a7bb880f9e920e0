#include "server/api_error.h"

#include "base/json.h"

namespace decant {
namespace {

/// Seconds after which a queue may have moved, or another process may have taken over.
constexpr const char* kRetryAfter = "1";

std::string QuoteOrNull(std::string_view text) { return text.empty() ? "null" : JsonQuote(text); }

}  // namespace

std::string ErrorJson(const ApiError& error) {
  const JsonObject body = JsonObject()
                              .Add("message", error.message)
                              .Add("type", error.type)
                              .AddJson("param", QuoteOrNull(error.param))
                              .AddJson("code", QuoteOrNull(error.code));
  return JsonObject().Add("error", body).ToString();
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response{.status = error.status, .body = ErrorJson(error)};
  if (error.status == 429 || error.status == 503) {
    response.headers.push_back({"Retry-After", kRetryAfter});
  }
  return response;
}

HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message,
                           std::string_view param, std::string_view code) {
  return ErrorResponse({.status = status,
                        .type = type,
                        .message = std::string(message),
                        .param = std::string(param),
                        .code = std::string(code)});
}

}  // namespace decant
