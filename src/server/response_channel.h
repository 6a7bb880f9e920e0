#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "server/http_exchange.h"

namespace decant {

/// Carries one answer from a handler, on any thread, to the session that writes it, on its I/O
/// thread. Nobody waits in it: bytes queue up, and whoever fills more than the limit is cut off.
class ResponseChannel {
 public:
  /// `buffer_limit`: bytes sent by the handler and not yet taken by the socket, at most. `wake`
  /// asks the session to call Take; it is called with a lock held and never after Close.
  ResponseChannel(size_t buffer_limit, std::function<void()> wake);

  // The handler's side: what HttpExchange promises.
  void Respond(HttpResponse response);
  void BeginStream(std::vector<HttpHeader> headers);
  bool Send(std::string bytes);
  void EndStream();
  void OnGone(std::function<void()> callback);
  /// The exchange was dropped: what is not answered gets a 500, a stream that has not ended is cut
  /// off.
  void Drop();

  // The session's side.
  struct Output {
    std::optional<HttpResponse> response{};
    std::optional<std::vector<HttpHeader>> stream_headers{};
    std::string bytes{};
    bool ended = false;    ///< Nothing comes after this.
    bool cut_off = false;  ///< The connection is to be closed at once.
  };
  /// What came since the last call.
  Output Take();
  /// The socket took `bytes` bytes of what Take returned.
  void MarkSent(size_t bytes);
  /// The session is done with the answer; if the answer had not ended, its client counts as gone.
  /// Calls OnGone's callback then.
  void Close(bool gone);

 private:
  enum class State { kOpen, kStreaming, kEnded, kGone };

  void Wake();

  const size_t buffer_limit_;
  std::mutex mutex_;
  std::function<void()> wake_;
  State state_ = State::kOpen;
  bool waking_ = false;
  size_t queued_ = 0;  ///< bytes
  Output output_;
  std::function<void()> on_gone_;
};

/// The handler's end of a channel.
class ChannelExchange final : public HttpExchange {
 public:
  ChannelExchange(HttpRequest request, std::shared_ptr<ResponseChannel> channel);
  ~ChannelExchange() override;
  ChannelExchange(const ChannelExchange&) = delete;
  ChannelExchange& operator=(const ChannelExchange&) = delete;

  const HttpRequest& request() const override { return request_; }
  void Respond(HttpResponse response) override { channel_->Respond(std::move(response)); }
  void BeginStream(std::vector<HttpHeader> headers) override {
    channel_->BeginStream(std::move(headers));
  }
  bool Send(std::string bytes) override { return channel_->Send(std::move(bytes)); }
  void EndStream() override { channel_->EndStream(); }
  void OnGone(std::function<void()> callback) override { channel_->OnGone(std::move(callback)); }

 private:
  const HttpRequest request_;
  const std::shared_ptr<ResponseChannel> channel_;
};

}  // namespace decant
