#include "server/testing/raw_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/check.h"

namespace decant {

RawClient::RawClient(int port, int receive_buffer) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  DECANT_CHECK(socket_ >= 0, "no socket");
  if (receive_buffer > 0) {
    setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  DECANT_CHECK(connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0,
               "nobody listens on port {}", port);
}

RawClient::~RawClient() { Close(); }

RawClient::RawClient(RawClient&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)),
      ended_(other.ended_),
      input_(std::move(other.input_)) {}

bool RawClient::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    pollfd ready{.fd = socket_, .events = POLLOUT, .revents = 0};
    if (poll(&ready, 1, static_cast<int>(kPatience.count())) <= 0) return false;
    const ssize_t size = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(size));
  }
  return true;
}

void RawClient::StopSending() { shutdown(socket_, SHUT_WR); }

void RawClient::Close() {
  if (socket_ >= 0) close(std::exchange(socket_, -1));
}

bool RawClient::HasInput() const {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  return !input_.empty() || ended_ || poll(&ready, 1, 0) > 0;
}

/// Waits for more; false: the connection has ended, or nothing came.
bool RawClient::Fill() {
  pollfd ready{.fd = socket_, .events = POLLIN, .revents = 0};
  if (ended_ || poll(&ready, 1, static_cast<int>(kPatience.count())) <= 0) return false;
  std::array<char, 16384> bytes{};
  const ssize_t size = recv(socket_, bytes.data(), bytes.size(), 0);
  ended_ = size <= 0;
  if (!ended_) input_.append(bytes.data(), static_cast<size_t>(size));
  return !ended_;
}

std::optional<std::string> RawClient::Take(size_t size) {
  while (input_.size() < size) {
    if (!Fill()) return std::nullopt;
  }
  std::string taken = input_.substr(0, size);
  input_.erase(0, size);
  return taken;
}

std::string RawClient::ReadUntil(std::string_view end) {
  size_t found = input_.find(end);
  while (found == std::string::npos && Fill()) found = input_.find(end);
  const size_t size = found == std::string::npos ? input_.size() : found + end.size();
  std::string taken = input_.substr(0, size);
  input_.erase(0, size);
  return taken;
}

std::optional<std::string> RawClient::ReadChunks() {
  std::string body;
  for (;;) {
    const std::string line = ReadUntil("\r\n");
    if (!line.ends_with("\r\n")) return std::nullopt;
    const size_t size = std::stoul(line, nullptr, 16);
    const std::optional<std::string> chunk = Take(size + 2);
    if (!chunk || !chunk->ends_with("\r\n")) return std::nullopt;
    if (size == 0) return body;
    body += chunk->substr(0, size);
  }
}

std::optional<RawResponse> RawClient::ReadResponse() {
  const std::string head = ReadUntil("\r\n\r\n");
  if (!head.starts_with("HTTP/1.1 ") || !head.ends_with("\r\n\r\n")) return std::nullopt;
  RawResponse response{.status = std::stoi(head.substr(9, 3))};
  for (size_t line = head.find("\r\n") + 2; line + 2 < head.size();) {
    const size_t end = head.find("\r\n", line);
    const size_t colon = head.find(": ", line);
    std::string name = head.substr(line, colon - line);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    response.headers[name] = head.substr(colon + 2, end - colon - 2);
    line = end + 2;
  }
  std::optional<std::string> body;
  if (response.status == 100) {
    body = "";
  } else if (response.headers.count("content-length") > 0) {
    body = Take(std::stoul(response.headers["content-length"]));
  } else if (response.headers.count("transfer-encoding") > 0) {
    body = ReadChunks();
  } else {
    while (Fill()) {
    }
    body = std::exchange(input_, {});
  }
  if (!body) return std::nullopt;
  response.body = std::move(*body);
  return response;
}

bool RawClient::IsClosed() {
  while (Fill()) {
  }
  return ended_;
}

}  // namespace decant
