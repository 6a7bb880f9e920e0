#include "server/http_exchange.h"

#include <algorithm>

namespace decant {
namespace {

char LowerCase(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool SameName(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, LowerCase, LowerCase);
}

}  // namespace

std::optional<std::string_view> HttpRequest::Header(std::string_view name) const {
  for (const HttpHeader& header : headers) {
    if (SameName(header.name, name)) return header.value;
  }
  return std::nullopt;
}

}  // namespace decant
