#include "server/response_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>

namespace decant {
namespace {

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    default:
      return status < 400 ? "OK" : "Error";
  }
}

void AppendField(std::string& out, std::string_view name, std::string_view value) {
  out += name;
  out += ": ";
  std::copy_if(value.begin(), value.end(), std::back_inserter(out),
               [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; });
  out += "\r\n";
}

}  // namespace

std::string ResponseHead::ToString(const std::vector<HttpHeader>& more) const {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", status, Reason(status));
  AppendField(out, "Date", date);
  AppendField(out, "Content-Type", content_type);
  switch (framing) {
    case BodyFraming::kLength:
      AppendField(out, "Content-Length", std::to_string(content_length));
      break;
    case BodyFraming::kChunked:
      AppendField(out, "Transfer-Encoding", "chunked");
      break;
    case BodyFraming::kClose:
      break;
  }
  AppendField(out, "Connection", keep_alive ? "keep-alive" : "close");
  AppendField(out, "X-Request-Id", request_id);
  for (const HttpHeader& header : more) AppendField(out, header.name, header.value);
  out += "\r\n";
  return out;
}

std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text{};
  const size_t size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return {text.data(), size};
}

void AppendChunk(std::string& out, std::string_view bytes) {
  fmt::format_to(std::back_inserter(out), "{:x}\r\n", bytes.size());
  out += bytes;
  out += "\r\n";
}

bool ValidRequestId(std::string_view id) {
  constexpr size_t kMaxBytes = 128;
  return !id.empty() && id.size() <= kMaxBytes && std::all_of(id.begin(), id.end(), [](char c) {
    return c > ' ' && c < 127 && c != '"' && c != '\'' && c != '\\';
  });
}

}  // namespace decant
