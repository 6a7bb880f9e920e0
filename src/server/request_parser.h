#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/http_exchange.h"

namespace decant {

/// Why a request is refused before its handler sees it.
struct FramingError {
  int status = 400;  ///< 400, 405, 408, 413, 417, 431 or 503.
  std::string message{};
};

/// Reads one request (HTTP/1.0 or 1.1, RFC 9112) out of a connection's bytes. Strict where two
/// readers of the same bytes could differ: a repeated Content-Length, Content-Length beside
/// Transfer-Encoding, a coding other than chunked and a line that ends without CR LF are refused.
class RequestParser {
 public:
  /// Bytes of the request line and headers, and of the body, at most.
  RequestParser(size_t header_limit, size_t body_limit);
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  /// Reads from the front of `bytes` and returns how many it took. The rest is to be offered again
  /// with what comes behind it; once the request is done it belongs to the next one. Not to be
  /// called after an error.
  size_t Parse(std::string_view bytes);

  /// What was wrong, once something was.
  const std::optional<FramingError>& error() const;

  bool head_done() const;
  bool done() const;

  /// Of a request whose head is done.
  bool keep_alive() const;
  bool http_1_1() const;
  bool expects_continue() const;  ///< The client waits for "100 Continue" before it sends the body.

  /// What is known of the request so far; whole once done.
  HttpRequest& request();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace decant
