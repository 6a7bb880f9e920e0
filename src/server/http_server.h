#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "server/access_log.h"
#include "server/http_exchange.h"

namespace decant {

/// What one client may take; beyond it the client gets the status named, or is cut off.
struct HttpLimits {
  size_t header_bytes = 64 << 10;  ///< Request line and headers: 431.
  size_t body_bytes = 16 << 20;    ///< 413.
  /// Of the bodies that are being read, all clients together: 503.
  size_t all_bodies_bytes = 256 << 20;
  size_t stream_buffer_bytes = 1 << 20;  ///< Sent by the handler, not taken by the client: cut off.
  int32_t connections = 10000;           ///< All clients together; one more gets 503.
  std::chrono::milliseconds idle_timeout{75'000};  ///< Between two requests: closed.
  /// From a request's first byte to its last: 408.
  std::chrono::milliseconds request_timeout{60'000};
  std::chrono::milliseconds stall_timeout{30'000};  ///< The client takes no byte: cut off.
};

struct HttpServerOptions {
  std::string host = "127.0.0.1";  ///< An address, or a name that has one.
  int port = 8000;                 ///< 0: any that is free.
  int io_threads = 1;
  int worker_threads = 2;  ///< Call the handler for requests that are no GET.
  HttpLimits limits{};
  std::function<void(const AccessRecord&)> access_log{};  ///< Called on I/O threads; may be empty.
};

/// Speaks HTTP/1.1 (and 1.0) to many clients at once: keep-alive, pipelining in order, answers as a
/// whole or as a chunked stream. An I/O thread never waits, so that a stalled client or a body that
/// takes long to parse delays nobody.
///
/// Handlers of GET run on an I/O thread and must not block; all others run on worker threads. HEAD
/// comes to the handler as GET, and its answer's body is not sent. A client that closes its end of
/// the connection, be it only for sending, counts as gone: TCP cannot tell the two apart.
class HttpServer {
 public:
  /// Listens, and serves from now on. Errors: an address that does not exist or is in use (named),
  /// options that make no sense.
  static Expected<std::unique_ptr<HttpServer>> Start(HttpServerOptions options,
                                                     HttpHandler handler);

  /// Closes all connections; clients that wait count as gone. Returns when no handler runs.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  /// "http://127.0.0.1:8000"
  std::string url() const;

  /// No new connection is taken from now on, idle ones are closed, and every answer is the last one
  /// of its connection.
  void StopAccepting();

  /// Waits until no request is in flight; false: there still is one after `timeout`.
  bool WaitIdle(std::chrono::milliseconds timeout);

  int64_t connections_open() const;
  int64_t requests_in_flight() const;

 private:
  class Impl;
  explicit HttpServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace decant
