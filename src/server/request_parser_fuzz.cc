// HTTP: a connection's bytes, read as a session reads them. The first byte says how long the pieces
// are in which they come: however they are cut, the same requests come out; each body is what its
// framing says, read here a second time; and nothing is kept beyond the limits.

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "server/request_parser.h"

namespace decant {
namespace {

constexpr size_t kHeaderLimit = 1024;
constexpr size_t kBodyLimit = 300;
constexpr size_t kMostKept = 32 << 10;

struct Outcome {
  std::vector<HttpRequest> requests;
  std::optional<FramingError> error;
};

/// The length that stands in `text` in this base, if it is nothing else.
std::optional<size_t> Length(std::string_view text, int base) {
  size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return length;
}

/// What a chunked body holds, trailers left out; nothing where it is none.
std::optional<std::string> Dechunk(std::string_view bytes) {
  std::string body;
  while (true) {
    const size_t line = bytes.find("\r\n");
    if (line == std::string_view::npos) return std::nullopt;
    if (bytes.find('\n') < line) return std::nullopt;
    std::string_view size = bytes.substr(0, std::min(line, bytes.find(';')));
    size = size.substr(0, size.find_last_not_of(" \t") + 1);
    const std::optional<size_t> length = Length(size, 16);
    bytes.remove_prefix(line + 2);
    if (!length || *length > bytes.size()) return std::nullopt;
    if (*length == 0) return body;
    body += bytes.substr(0, *length);
    bytes.remove_prefix(*length);
    if (!bytes.starts_with("\r\n")) return std::nullopt;
    bytes.remove_prefix(2);
  }
}

/// `bytes` are the request's own.
void CheckBody(const HttpRequest& request, std::string_view bytes) {
  while (bytes.starts_with("\r\n")) bytes.remove_prefix(2);
  const size_t head = bytes.find("\r\n\r\n");
  DECANT_CHECK(head != std::string_view::npos);
  const std::string_view behind = bytes.substr(head + 4);
  const std::optional<std::string_view> length = request.Header("Content-Length");
  if (request.Header("Transfer-Encoding")) {
    DECANT_CHECK(!length && Dechunk(behind) == request.body);
  } else {
    DECANT_CHECK(Length(length.value_or("0"), 10) == request.body.size());
    DECANT_CHECK(behind == request.body);
  }
  DECANT_CHECK(request.body.size() <= kBodyLimit);
}

void CheckHead(const HttpRequest& request, bool http_1_1) {
  const std::string target = request.path + request.query;
  DECANT_CHECK(request.path == "*" || request.path.starts_with('/'));
  DECANT_CHECK(std::ranges::all_of(target, [](char c) { return c > 0x20 && c < 0x7F; }));
  DECANT_CHECK(std::ranges::all_of(request.method, [](char c) { return c >= 'A' && c <= 'Z'; }));
  size_t bytes = target.size();
  int hosts = 0;
  for (const HttpHeader& header : request.headers) {
    bytes += header.name.size() + header.value.size();
    hosts += strcasecmp(header.name.c_str(), "Host") == 0 ? 1 : 0;
    DECANT_CHECK(!header.name.empty() &&
                 header.name.find_first_of(" \t\r\n:") == std::string::npos);
    DECANT_CHECK(header.value.find_first_of(std::string_view("\r\n\0", 3)) == std::string::npos);
  }
  DECANT_CHECK(bytes <= kHeaderLimit && (hosts == 1 || (hosts == 0 && !http_1_1)));
}

Outcome Read(std::string_view bytes, size_t piece) {
  Outcome outcome;
  std::string input;
  std::string own;  // bytes that the request at hand has taken
  std::optional<RequestParser> parser;
  while (!bytes.empty()) {
    input += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (!input.empty()) {
      if (!parser) parser.emplace(kHeaderLimit, kBodyLimit);
      const size_t used = parser->Parse(input);
      DECANT_CHECK(used <= input.size());
      own += input.substr(0, used);
      input.erase(0, used);
      if (parser->error()) {
        outcome.error = *parser->error();
        return outcome;
      }
      if (!parser->done()) break;
      CheckHead(parser->request(), parser->http_1_1());
      CheckBody(parser->request(), own);
      outcome.requests.push_back(parser->request());
      parser.reset();
      own.clear();
    }
    DECANT_CHECK(input.size() <= kMostKept, "{} bytes wait for more", input.size());
  }
  return outcome;
}

bool Same(const HttpRequest& a, const HttpRequest& b) {
  return a.method == b.method && a.path == b.path && a.query == b.query && a.body == b.body &&
         std::ranges::equal(a.headers, b.headers, [](const HttpHeader& x, const HttpHeader& y) {
           return x.name == y.name && x.value == y.value;
         });
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  testing::FuzzInput input(data, size);
  const size_t piece = 1 + input.Byte() % 32;
  const Outcome cut = Read(input.rest(), piece);
  const Outcome whole = Read(input.rest(), std::max<size_t>(size, 1));
  // What cannot become a request any more may be refused later when it comes in pieces, or sooner.
  DECANT_CHECK(std::ranges::equal(cut.requests, whole.requests, Same), "{} and {} requests",
               cut.requests.size(), whole.requests.size());
  for (const Outcome& outcome : {cut, whole}) {
    if (!outcome.error) continue;
    constexpr int kStatuses[] = {400, 405, 413, 417, 431};
    DECANT_CHECK(std::ranges::count(kStatuses, outcome.error->status) == 1 &&
                 !outcome.error->message.empty());
  }
  return 0;
}
