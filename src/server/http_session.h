#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/http_server.h"
#include "server/request_parser.h"
#include "server/response_channel.h"

namespace decant {

class HttpSession;

/// What all sessions of a server share.
struct SessionContext {
  const HttpServerOptions options;
  const HttpHandler handler;
  boost::asio::thread_pool workers;
  std::atomic<bool> closing = false;  ///< No connection outlives its current request.
  std::atomic<int64_t> connections = 0;
  std::atomic<size_t> body_bytes = 0;  ///< Of the requests that sessions are reading.

  SessionContext(HttpServerOptions options_in, HttpHandler handler_in);

  void BeginRequest();
  void EndRequest();
  bool WaitIdle(std::chrono::milliseconds timeout);
  int64_t requests_in_flight();

 private:
  std::mutex mutex_;
  std::condition_variable idle_;
  int64_t requests_ = 0;
};

/// What the sessions of one I/O thread share. All but `io` is touched on that thread only.
struct SessionHost {
  boost::asio::io_context io{1};
  std::unordered_set<std::shared_ptr<HttpSession>> sessions{};
  std::vector<char> scratch = std::vector<char>(64 << 10);  ///< What is read goes through it.

  /// Of this second.
  const std::string& date();
  std::string NewRequestId();

 private:
  int64_t date_second_ = -1;
  std::string date_;
  std::mt19937_64 random_{std::random_device{}()};
};

/// One connection: reads a request, hands it to the handler, writes the answer, and so on. Lives on
/// one I/O thread; an idle one holds no buffers.
class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  /// `host` and `context` outlive the session.
  HttpSession(Socket socket, SessionHost& host, SessionContext& context);
  ~HttpSession();

  void Start();

  /// Closes it if it is idle, or has waited too long for something. `now`: SteadyNanos.
  void CheckDeadlines(int64_t now);

  /// Closes it at once; a client that waits for an answer counts as gone.
  void Close();

 private:
  // Reading.
  void WaitReadable();
  void OnReadable();
  bool ParseNext();
  bool CountBody(size_t size);
  void Dispatch();
  void Refuse(const FramingError& error);

  // Answering.
  bool TakeOutput();
  void QueueWhole(const HttpResponse& response);
  void QueueStreamHead(std::vector<HttpHeader> headers);
  void QueueStreamBytes(std::string_view bytes, bool last);
  bool WriteOut();
  void FinishAnswer();

  void Advance();
  bool Step();
  void OnInputEnd();
  void Linger();
  void Record(bool complete);
  bool idle() const;
  bool read_ahead_full() const;

  Socket socket_;
  SessionHost& host_;
  SessionContext& context_;
  std::string client_;

  // The request being read.
  std::string input_;                      ///< Read and not parsed.
  std::unique_ptr<RequestParser> parser_;  ///< From a request's first byte to its dispatch.
  size_t body_bytes_ = 0;                  ///< This connection's part of SessionContext's.
  int64_t read_deadline_ = 0;              ///< SteadyNanos; 0: none.
  bool reading_ = false;                   ///< A wait for input is pending.
  bool input_ended_ = false;
  bool said_continue_ = false;

  // The answer being written.
  std::shared_ptr<ResponseChannel> channel_;  ///< While a request is in flight.
  AccessRecord record_;
  int64_t started_ = 0;  ///< SteadyNanos of the request's first byte.
  std::string output_;
  size_t output_sent_ = 0;
  size_t payload_ = 0;  ///< Bytes of the stream in output_, without framing.
  int64_t write_deadline_ = 0;
  bool writing_ = false;  ///< A wait for room is pending.
  bool answer_ended_ = false;
  bool keep_alive_ = true;
  bool http_1_1_ = true;
  bool head_only_ = false;

  bool closing_ = false;    ///< Once output_ is written the connection ends.
  bool lingering_ = false;  ///< Nothing more is written; what still comes is thrown away.
  bool closed_ = false;
};

}  // namespace decant
