#include "server/http_exchange.h"

#include <strings.h>

namespace decant {

std::optional<std::string_view> HttpRequest::Header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (header.name.size() == name.size() &&
        strncasecmp(header.name.data(), name.data(), name.size()) == 0) {
      return header.value;
    }
  }
  return std::nullopt;
}

}  // namespace decant
