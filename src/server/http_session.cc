#include "server/http_session.h"

#include <fmt/format.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "server/api_error.h"
#include "server/response_head.h"

namespace decant {
namespace {

using boost::asio::ip::tcp;
using ErrorCode = boost::system::error_code;

/// Read ahead of the request in flight, at most; then the client has to wait.
constexpr size_t kMaxAhead = 64 << 10;
/// So that one fast client does not keep the others of its thread waiting.
constexpr int kReadsPerTurn = 4;
constexpr std::chrono::seconds kLingerTime{2};
constexpr size_t kSmallBuffer = 4 << 10;

int64_t Nanos(std::chrono::nanoseconds time) { return time.count(); }

bool WouldBlock(const ErrorCode& error) {
  return error == boost::asio::error::would_block || error == boost::asio::error::try_again;
}

std::string ClientName(const tcp::socket& socket) {
  ErrorCode error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return "";
  const std::string address = peer.address().to_string();
  return peer.address().is_v6() ? fmt::format("[{}]:{}", address, peer.port())
                                : fmt::format("{}:{}", address, peer.port());
}

/// Lets go of a large buffer's memory while nothing is in it.
void Shrink(std::string& buffer) {
  if (buffer.empty() && buffer.capacity() > kSmallBuffer) std::string().swap(buffer);
}

}  // namespace

SessionContext::SessionContext(HttpServerOptions options_in, HttpHandler handler_in)
    : options(std::move(options_in)),
      handler(std::move(handler_in)),
      workers(static_cast<size_t>(options.worker_threads)) {}

void SessionContext::BeginRequest() {
  const std::lock_guard lock(mutex_);
  ++requests_;
}

void SessionContext::EndRequest() {
  const std::lock_guard lock(mutex_);
  if (--requests_ == 0) idle_.notify_all();
}

bool SessionContext::WaitIdle(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, timeout, [&] { return requests_ == 0; });
}

int64_t SessionContext::requests_in_flight() {
  const std::lock_guard lock(mutex_);
  return requests_;
}

const std::string& SessionHost::date() {
  constexpr int64_t kNanosPerSecond = 1'000'000'000;
  const int64_t second = SteadyNanos() / kNanosPerSecond;
  if (std::exchange(date_second_, second) != second) date_ = HttpDate();
  return date_;
}

std::string SessionHost::NewRequestId() { return fmt::format("req-{:016x}", random_()); }

HttpSession::HttpSession(Socket socket, SessionHost& host, SessionContext& context)
    : socket_(std::move(socket)), host_(host), context_(context), client_(ClientName(socket_)) {
  ++context_.connections;
}

HttpSession::~HttpSession() { --context_.connections; }

void HttpSession::Start() {
  ErrorCode error;
  socket_.non_blocking(true, error);
  socket_.set_option(tcp::no_delay(true), error);
  read_deadline_ = SteadyNanos() + Nanos(context_.options.limits.idle_timeout);
  WaitReadable();
}

bool HttpSession::idle() const {
  return !channel_ && !parser_ && input_.empty() && output_.empty() && !closing_;
}

bool HttpSession::read_ahead_full() const { return channel_ && input_.size() >= kMaxAhead; }

void HttpSession::CheckDeadlines(int64_t now) {
  if (write_deadline_ != 0 && now >= write_deadline_) {
    LogWarning("{}: {} took no byte for too long and is cut off", record_.id, client_);
    return Close();
  }
  if (idle() && context_.closing) return Close();
  if (read_deadline_ == 0 || now < read_deadline_) return;
  if (!parser_) return Close();
  Refuse({.status = 408, .message = "The request took too long to arrive."});
  Advance();
}

void HttpSession::Close() {
  if (std::exchange(closed_, true)) return;
  if (channel_) Record(false);  // first: whoever sees the connection gone finds its line in the log
  ErrorCode error;
  socket_.close(error);
  CountBody(0);
  if (channel_) {
    std::exchange(channel_, nullptr)->Close(true);
    context_.EndRequest();
  }
  host_.sessions.erase(shared_from_this());
}

// Reading.

void HttpSession::WaitReadable() {
  if (closed_ || reading_ || input_ended_ || read_ahead_full()) return;
  reading_ = true;
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](const ErrorCode& error) {
    self->reading_ = false;
    if (!error && !self->closed_) self->OnReadable();
  });
}

void HttpSession::OnReadable() {
  for (int turn = 0; turn < kReadsPerTurn && !read_ahead_full(); ++turn) {
    ErrorCode error;
    const size_t size = socket_.read_some(boost::asio::buffer(host_.scratch), error);
    if (WouldBlock(error)) break;
    if (error && error != boost::asio::error::eof) return Close();
    input_ended_ = static_cast<bool>(error);
    if (!lingering_ && !closing_) input_.append(host_.scratch.data(), size);
    Advance();
    if (closed_ || input_ended_) return;
  }
  WaitReadable();
}

/// Reads the next request out of the input; false: it is not all there yet.
bool HttpSession::ParseNext() {
  if (input_.empty()) return false;
  if (!parser_) {
    const HttpLimits& limits = context_.options.limits;
    parser_ = std::make_unique<RequestParser>(limits.header_bytes, limits.body_bytes);
    said_continue_ = false;
    record_ = {};
    started_ = SteadyNanos();
    read_deadline_ = started_ + Nanos(limits.request_timeout);
  }
  input_.erase(0, parser_->Parse(input_));
  Shrink(input_);
  if (parser_->error()) {
    const FramingError error = *parser_->error();  // a copy: Refuse drops the parser
    Refuse(error);
    return true;
  }
  if (!CountBody(parser_->request().body.size())) {
    Refuse({.status = 503, .message = "The server reads as many large requests as it can hold."});
    return true;
  }
  if (parser_->done()) {
    Dispatch();
    return true;
  }
  if (parser_->head_done() && parser_->expects_continue() && !std::exchange(said_continue_, true)) {
    output_ += "HTTP/1.1 100 Continue\r\n\r\n";
    return true;
  }
  return false;
}

/// Notes how much of the body is held; false: all sessions together hold too much.
bool HttpSession::CountBody(size_t size) {
  const size_t before = std::exchange(body_bytes_, size);
  const size_t all = context_.body_bytes += size - before;
  return size <= before || all <= context_.options.limits.all_bodies_bytes;
}

void HttpSession::Dispatch() {
  CountBody(0);
  read_deadline_ = 0;
  http_1_1_ = parser_->http_1_1();
  keep_alive_ = parser_->keep_alive();
  HttpRequest request = std::move(parser_->request());
  parser_.reset();
  const std::string_view given = request.Header("X-Request-Id").value_or("");
  request.id = ValidRequestId(given) ? std::string(given) : host_.NewRequestId();
  request.client = client_;
  record_.id = request.id;
  record_.client = client_;
  record_.method = request.method;
  record_.path = request.path;
  head_only_ = request.method == "HEAD";
  if (head_only_) request.method = "GET";
  answer_ended_ = false;

  context_.BeginRequest();
  channel_ = std::make_shared<ResponseChannel>(context_.options.limits.stream_buffer_bytes, [this] {
    boost::asio::post(host_.io, [self = shared_from_this()] { self->Advance(); });
  });
  const bool get = request.method == "GET";
  auto exchange = std::make_shared<ChannelExchange>(std::move(request), channel_);
  if (get) return context_.handler(std::move(exchange));
  boost::asio::post(context_.workers,
                    [&handler = context_.handler, exchange = std::move(exchange)]() mutable {
                      handler(std::move(exchange));
                    });
}

/// Answers a request that no handler sees; the connection ends with it, because nobody knows where
/// the next request would begin.
void HttpSession::Refuse(const FramingError& error) {
  const HttpRequest& request = parser_->request();
  const std::string_view given = request.Header("X-Request-Id").value_or("");
  record_.id = ValidRequestId(given) ? std::string(given) : host_.NewRequestId();
  record_.client = client_;
  record_.method = request.method;
  record_.path = request.path;
  head_only_ = request.method == "HEAD";
  parser_.reset();
  CountBody(0);
  read_deadline_ = 0;
  std::string().swap(input_);
  closing_ = true;
  keep_alive_ = false;
  const bool full = error.status == 503;
  HttpResponse response = ErrorResponse(
      error.status, full ? "service_unavailable_error" : "invalid_request_error", error.message);
  if (error.status == 405) response.headers.push_back({"Allow", "GET, HEAD, POST"});
  QueueWhole(response);
  record_.bytes += static_cast<int64_t>(output_.size());
  Record(true);
}

// Answering.

/// Moves what the handler has sent since the last call to the output; false: nothing.
bool HttpSession::TakeOutput() {
  ResponseChannel::Output taken = channel_->Take();
  if (taken.cut_off) {
    LogWarning("{}: {} is cut off: it does not read its stream, or the stream broke off",
               record_.id, client_);
    Close();
    return false;
  }
  answer_ended_ = taken.ended;
  if (taken.response) QueueWhole(*taken.response);
  if (taken.stream_headers) QueueStreamHead(std::move(*taken.stream_headers));
  if (record_.streamed) QueueStreamBytes(taken.bytes, taken.ended);
  return !output_.empty() || answer_ended_;
}

void HttpSession::QueueWhole(const HttpResponse& response) {
  record_.status = response.status;
  keep_alive_ = keep_alive_ && !context_.closing;
  output_ += ResponseHead{.status = response.status,
                          .content_type = response.content_type,
                          .content_length = response.body.size(),
                          .keep_alive = keep_alive_,
                          .request_id = record_.id,
                          .date = host_.date()}
                 .ToString(response.headers);
  if (!head_only_) output_ += response.body;
}

void HttpSession::QueueStreamHead(std::vector<HttpHeader> headers) {
  record_.status = 200;
  record_.streamed = true;
  keep_alive_ = keep_alive_ && http_1_1_ && !context_.closing;
  headers.insert(headers.begin(), {"Cache-Control", "no-cache"});
  output_ += ResponseHead{.content_type = "text/event-stream; charset=utf-8",
                          .framing = http_1_1_ ? BodyFraming::kChunked : BodyFraming::kClose,
                          .keep_alive = keep_alive_,
                          .request_id = record_.id,
                          .date = host_.date()}
                 .ToString(headers);
}

void HttpSession::QueueStreamBytes(std::string_view bytes, bool last) {
  payload_ = bytes.size();
  if (head_only_) return;
  if (!http_1_1_) {
    output_ += bytes;
    return;
  }
  if (!bytes.empty()) AppendChunk(output_, bytes);
  if (last) output_ += kLastChunk;
}

/// False: the socket has no room now.
bool HttpSession::WriteOut() {
  while (output_sent_ < output_.size()) {
    ErrorCode error;
    const size_t size = socket_.write_some(
        boost::asio::buffer(output_.data() + output_sent_, output_.size() - output_sent_), error);
    if (error && !WouldBlock(error)) {
      Close();
      return false;
    }
    if (size > 0) write_deadline_ = 0;
    output_sent_ += size;
    record_.bytes += static_cast<int64_t>(size);
    if (!error) continue;
    if (write_deadline_ == 0) {
      write_deadline_ = SteadyNanos() + Nanos(context_.options.limits.stall_timeout);
    }
    if (std::exchange(writing_, true)) return false;
    socket_.async_wait(tcp::socket::wait_write, [self = shared_from_this()](const ErrorCode& code) {
      self->writing_ = false;
      if (!code) self->Advance();
    });
    return false;
  }
  output_.clear();
  Shrink(output_);
  output_sent_ = 0;
  write_deadline_ = 0;
  if (channel_) channel_->MarkSent(std::exchange(payload_, 0));
  return true;
}

void HttpSession::FinishAnswer() {
  Record(true);
  std::exchange(channel_, nullptr)->Close(false);
  context_.EndRequest();
  if (!keep_alive_) {
    closing_ = true;
    std::string().swap(input_);
    return;
  }
  read_deadline_ = SteadyNanos() + Nanos(context_.options.limits.idle_timeout);
}

void HttpSession::Record(bool complete) {
  record_.complete = complete;
  record_.seconds = static_cast<double>(SteadyNanos() - started_) * 1e-9;
  if (context_.options.access_log) context_.options.access_log(record_);
}

// Both.

/// Does all that can be done now.
void HttpSession::Advance() {
  while (!closed_ && Step()) {
  }
  if (closed_) return;
  if (input_ended_) return OnInputEnd();
  WaitReadable();
}

/// The next thing to do; false: it has to wait for the client or the handler.
bool HttpSession::Step() {
  if (lingering_ || !WriteOut()) return false;
  if (channel_) {
    if (!answer_ended_) return TakeOutput();
    FinishAnswer();
    return true;
  }
  if (closing_) {
    Linger();
    return false;
  }
  return ParseNext();
}

/// The client sends no more, and what it sent is dealt with as far as it can be.
void HttpSession::OnInputEnd() {
  if (channel_ ? answer_ended_ : closing_ && !lingering_) return;  // what is left is being written
  if (parser_ && !lingering_) {
    Refuse({.status = 400, .message = "The request ended before its end."});
    return Advance();
  }
  Close();
}

/// Ends the connection so that the client can read the answer first: closing a socket with input
/// unread would reset the connection and throw away what is on its way.
void HttpSession::Linger() {
  lingering_ = true;
  ErrorCode error;
  socket_.shutdown(tcp::socket::shutdown_send, error);
  read_deadline_ = SteadyNanos() + Nanos(kLingerTime);
}

}  // namespace decant
