#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http_exchange.h"

namespace decant {

/// How an answer's body ends.
enum class BodyFraming {
  kLength,   ///< Content-Length.
  kChunked,  ///< Transfer-Encoding: chunked.
  kClose,    ///< The connection is closed; HTTP/1.0 has no chunks.
};

struct ResponseHead {
  int status = 200;
  std::string_view content_type = "application/json";
  BodyFraming framing = BodyFraming::kLength;
  size_t content_length = 0;  ///< With kLength.
  bool keep_alive = true;
  std::string_view request_id{};
  std::string_view date{};  ///< As HttpDate gives it.

  /// Status line and headers with the empty line behind them, those of `more` last. What would
  /// break out of a header line (control characters) is left out.
  std::string ToString(const std::vector<HttpHeader>& more) const;
};

/// The time now as RFC 9110 writes it: "Sun, 06 Nov 1994 08:49:37 GMT".
std::string HttpDate();

/// The bytes that frame `bytes` as one chunk; `bytes` must not be empty.
void AppendChunk(std::string& out, std::string_view bytes);

/// What ends a chunked body.
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

/// Whether the server takes `id` as a request's id: 1 to 128 printable ASCII characters without
/// spaces, quotes and backslashes.
bool ValidRequestId(std::string_view id);

}  // namespace decant
