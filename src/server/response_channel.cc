#include "server/response_channel.h"

#include <utility>

#include "base/check.h"
#include "server/api_error.h"

namespace decant {

ResponseChannel::ResponseChannel(size_t buffer_limit, std::function<void()> wake)
    : buffer_limit_(buffer_limit), wake_(std::move(wake)) {}

void ResponseChannel::Wake() {
  if (std::exchange(waking_, true)) return;
  wake_();
}

void ResponseChannel::Respond(HttpResponse response) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kGone) return;
  DECANT_CHECK(state_ == State::kOpen, "a request is answered once");
  state_ = State::kEnded;
  output_.response = std::move(response);
  output_.ended = true;
  Wake();
}

void ResponseChannel::BeginStream(std::vector<HttpHeader> headers) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kGone) return;
  DECANT_CHECK(state_ == State::kOpen, "a request is answered once");
  state_ = State::kStreaming;
  output_.stream_headers = std::move(headers);
  Wake();
}

bool ResponseChannel::Send(std::string bytes) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kGone || output_.cut_off) return false;
  DECANT_CHECK(state_ == State::kStreaming, "bytes go into a stream that has begun and not ended");
  queued_ += bytes.size();
  output_.cut_off = queued_ > buffer_limit_;
  if (output_.bytes.empty()) {
    output_.bytes = std::move(bytes);
  } else {
    output_.bytes += bytes;
  }
  Wake();
  return !output_.cut_off;
}

void ResponseChannel::EndStream() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kGone) return;
  DECANT_CHECK(state_ == State::kStreaming, "a stream ends once");
  state_ = State::kEnded;
  output_.ended = true;
  Wake();
}

void ResponseChannel::OnGone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::kGone) {
      if (wake_) on_gone_ = std::move(callback);
      return;
    }
  }
  callback();
}

void ResponseChannel::Drop() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::kOpen) {
    state_ = State::kEnded;
    output_.response =
        ErrorResponse(500, "server_error", "The server dropped the request without an answer.");
    output_.ended = true;
    Wake();
  } else if (state_ == State::kStreaming) {
    output_.cut_off = true;
    Wake();
  }
}

ResponseChannel::Output ResponseChannel::Take() {
  const std::lock_guard lock(mutex_);
  waking_ = false;
  Output taken = std::exchange(output_, Output());
  output_.cut_off = taken.cut_off;
  return taken;
}

void ResponseChannel::MarkSent(size_t bytes) {
  const std::lock_guard lock(mutex_);
  queued_ -= bytes;
}

void ResponseChannel::Close(bool gone) {
  std::function<void()> callback;
  {
    const std::lock_guard lock(mutex_);
    wake_ = nullptr;
    state_ = gone ? State::kGone : State::kEnded;
    output_ = Output();
    // Destroyed outside of the lock either way: it may hold the last reference to much.
    callback = std::exchange(on_gone_, nullptr);
  }
  if (gone && callback) callback();
}

ChannelExchange::ChannelExchange(HttpRequest request, std::shared_ptr<ResponseChannel> channel)
    : request_(std::move(request)), channel_(std::move(channel)) {}

ChannelExchange::~ChannelExchange() { channel_->Drop(); }

}  // namespace decant
