#include "server/http_server.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/api_error.h"
#include "server/http_session.h"
#include "server/response_head.h"

namespace decant {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int kBacklog = 4096;
constexpr std::chrono::milliseconds kAcceptRetry{100};
/// Files that the process needs beside its connections.
constexpr int64_t kOtherFiles = 128;

Status Validate(const HttpServerOptions& options) {
  if (options.port < 0 || options.port > 65535) {
    return InvalidArgument("--port {} is not in 0 to 65535", options.port);
  }
  if (options.io_threads < 1 || options.worker_threads < 1) {
    return InvalidArgument("a server needs at least one I/O thread and one worker");
  }
  if (options.limits.connections < 1) {
    return InvalidArgument("--max-connections {} is below 1", options.limits.connections);
  }
  return {};
}

/// Raises the limit of open files as far as the system lets us, and returns it.
int64_t RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return INT32_MAX;
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, INT32_MAX));
}

void LimitConnections(HttpLimits& limits) {
  const int64_t most = std::max<int64_t>(1, RaiseFileLimit() - kOtherFiles);
  if (limits.connections <= most) return;
  LogWarning("{} connections at most, not {}: the limit of open files (ulimit -n) allows no more",
             most, limits.connections);
  limits.connections = static_cast<int32_t>(most);
}

/// How often sessions are asked whether they waited too long.
std::chrono::milliseconds SweepInterval(const HttpLimits& limits) {
  const auto shortest =
      std::min({limits.idle_timeout, limits.request_timeout, limits.stall_timeout});
  return std::clamp(shortest / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
}

/// An I/O thread and its sessions.
class IoThread {
 public:
  explicit IoThread(const SessionContext& context)
      : interval_(SweepInterval(context.options.limits)) {
    Sweep();
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "decant-http");  // for top, and for tests that look at it
      host.io.run();
    });
  }

  /// Closes all sessions and waits until the thread has nothing left to do.
  void Stop() {
    boost::asio::post(host.io, [this] {
      stopping_ = true;
      timer_.cancel();
      const auto sessions = host.sessions;
      for (const auto& session : sessions) session->Close();
    });
    thread_.join();
  }

  /// Closes sessions that have waited too long, or that are idle while the server closes.
  void CheckSessions() {
    const int64_t now = SteadyNanos();
    const auto sessions = host.sessions;
    for (const auto& session : sessions) session->CheckDeadlines(now);
  }

  SessionHost host;

 private:
  void Sweep() {
    timer_.expires_after(interval_);
    timer_.async_wait([this](const ErrorCode& error) {
      if (error || stopping_) return;
      CheckSessions();
      Sweep();
    });
  }

  const std::chrono::milliseconds interval_;
  boost::asio::steady_timer timer_{host.io};
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace

class HttpServer::Impl {
 public:
  Impl(HttpServerOptions options, HttpHandler handler)
      : context_(std::move(options), std::move(handler)), threads_(StartThreads(context_)) {}

  ~Impl() {
    StopAccepting();
    context_.workers.stop();
    for (const auto& thread : threads_) thread->Stop();
    context_.workers.join();
  }

  Status Listen() {
    const HttpServerOptions& options = context_.options;
    const auto fails = [&](const ErrorCode& error) {
      return Error(StatusCode::kFailedPrecondition,
                   "cannot listen on {} port {}: {} (--host and --port choose)", options.host,
                   options.port, error.message());
    };
    ErrorCode error;
    tcp::resolver resolver(main_io());
    const auto found =
        resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
    if (error || found.empty()) return fails(error);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kBacklog, error);
    if (error) return fails(error);
    endpoint_ = acceptor_.local_endpoint(error);
    if (error) return fails(error);
    boost::asio::post(main_io(), [this] { Accept(); });
    return {};
  }

  void StopAccepting() {
    context_.closing = true;
    boost::asio::post(main_io(), [this] {
      ErrorCode error;
      acceptor_.close(error);
      retry_.cancel();
    });
    for (const auto& thread : threads_) {
      boost::asio::post(thread->host.io, [&thread = *thread] { thread.CheckSessions(); });
    }
  }

  const tcp::endpoint& endpoint() const { return endpoint_; }
  SessionContext& context() { return context_; }

 private:
  static std::vector<std::unique_ptr<IoThread>> StartThreads(const SessionContext& context) {
    std::vector<std::unique_ptr<IoThread>> threads;
    threads.reserve(static_cast<size_t>(context.options.io_threads));
    for (int i = 0; i < context.options.io_threads; ++i) {
      threads.push_back(std::make_unique<IoThread>(context));
    }
    return threads;
  }

  boost::asio::io_context& main_io() { return threads_.front()->host.io; }

  void Accept() {
    if (!acceptor_.is_open()) return;
    SessionHost& host = threads_[next_++ % threads_.size()]->host;
    acceptor_.async_accept(host.io, [this, &host](const ErrorCode& error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return RetryAccept(error);
      if (context_.connections >= context_.options.limits.connections) {
        TurnAway(socket);
      } else {
        StartSession(std::move(socket), host);
      }
      Accept();
    });
  }

  /// Most likely no file descriptor is left; connections wait in the backlog meanwhile.
  void RetryAccept(const ErrorCode& error) {
    LogWarning("a connection could not be taken: {}", error.message());
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([this](const ErrorCode& cancelled) {
      if (!cancelled) Accept();
    });
  }

  void StartSession(tcp::socket socket, SessionHost& host) {
    const auto session = std::make_shared<HttpSession>(std::move(socket), host, context_);
    boost::asio::dispatch(host.io, [session, &host] {
      host.sessions.insert(session);
      session->Start();
    });
  }

  /// One write without waiting: a new socket has room for it.
  static void TurnAway(tcp::socket& socket) {
    const HttpResponse response = ErrorResponse(
        503, "service_unavailable_error", "The server has all the connections that it takes.");
    const std::string text = ResponseHead{.status = response.status,
                                          .content_length = response.body.size(),
                                          .keep_alive = false,
                                          .request_id = "none",
                                          .date = HttpDate()}
                                 .ToString(response.headers) +
                             response.body;
    ErrorCode error;
    socket.non_blocking(true, error);
    socket.write_some(boost::asio::buffer(text), error);
    socket.shutdown(tcp::socket::shutdown_send, error);
  }

  SessionContext context_;
  std::vector<std::unique_ptr<IoThread>> threads_;
  tcp::acceptor acceptor_{main_io()};
  boost::asio::steady_timer retry_{main_io()};
  tcp::endpoint endpoint_;
  size_t next_ = 0;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Expected<std::unique_ptr<HttpServer>> HttpServer::Start(HttpServerOptions options,
                                                        HttpHandler handler) {
  DECANT_RETURN_IF_ERROR(Validate(options));
  LimitConnections(options.limits);
  auto impl = std::make_unique<Impl>(std::move(options), std::move(handler));
  DECANT_RETURN_IF_ERROR(impl->Listen());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

int HttpServer::port() const { return impl_->endpoint().port(); }

std::string HttpServer::url() const {
  const bool v6 = impl_->endpoint().address().is_v6();
  const std::string address = impl_->endpoint().address().to_string();
  return v6 ? fmt::format("http://[{}]:{}", address, port())
            : fmt::format("http://{}:{}", address, port());
}

void HttpServer::StopAccepting() { impl_->StopAccepting(); }

bool HttpServer::WaitIdle(std::chrono::milliseconds timeout) {
  return impl_->context().WaitIdle(timeout);
}

int64_t HttpServer::connections_open() const { return impl_->context().connections; }
int64_t HttpServer::requests_in_flight() const { return impl_->context().requests_in_flight(); }

}  // namespace decant
