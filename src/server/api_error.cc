#include "server/api_error.h"

#include <fmt/format.h>

#include <string>

#include "base/json.h"

namespace decant {
namespace {

std::string QuoteOrNull(std::string_view text) { return text.empty() ? "null" : JsonQuote(text); }

}  // namespace

HttpResponse ErrorResponse(int status, std::string_view type, std::string_view message,
                           std::string_view param, std::string_view code) {
  HttpResponse response;
  response.status = status;
  response.body =
      fmt::format(R"({{"error":{{"message":{},"type":{},"param":{},"code":{}}}}})",
                  JsonQuote(message), JsonQuote(type), QuoteOrNull(param), QuoteOrNull(code));
  if (status == 429 || status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

}  // namespace decant
