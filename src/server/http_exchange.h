#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace decant {

struct HttpHeader {
  std::string name;
  std::string value;
};

/// A whole request, its framing checked.
struct HttpRequest {
  std::string method;  ///< "GET"
  std::string path;    ///< What stands before '?', as sent: "/v1/models".
  std::string query;   ///< What stands behind it; maybe nothing.
  std::vector<HttpHeader> headers{};
  std::string body{};
  std::string client{};  ///< Address and port, for the log.
  std::string id{};      ///< The client's X-Request-Id where that is plain text, else one of ours.

  /// The first header of this name, whatever its case.
  std::optional<std::string_view> Header(std::string_view name) const;
};

/// A whole response.
struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::vector<HttpHeader> headers{};
  std::string body{};
};

/// A request and the way back to its client. All calls may come from any thread, and none blocks: a
/// stream's bytes are queued. An exchange that is dropped without an answer answers 500 by itself.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;

  /// Answers. Either this or BeginStream is called, once.
  virtual void Respond(HttpResponse response) = 0;

  /// Answers 200 with a stream of server-sent events.
  virtual void BeginStream(std::vector<HttpHeader> headers) = 0;

  /// Adds bytes to the stream. False: the client is gone, or reads so slowly that it was cut off.
  virtual bool Send(std::string bytes) = 0;

  virtual void EndStream() = 0;

  /// Calls `callback` once, on a thread of the server's, if the client goes away before its answer
  /// has ended; at once if it is gone already. One callback an exchange.
  virtual void OnGone(std::function<void()> callback) = 0;
};

/// Takes an exchange and answers it, then or later.
using HttpHandler = std::function<void(std::shared_ptr<HttpExchange>)>;

}  // namespace decant
