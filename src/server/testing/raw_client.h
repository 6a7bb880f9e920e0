#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace decant {

/// An answer as a client reads it; header names in lower case.
struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers{};
  std::string body{};  ///< Without the framing of chunks.
};

/// A TCP connection to a server on this machine that sends exactly the bytes it is given, for tests
/// of what well-behaved clients never do. Every wait has an end: 5 s.
class RawClient {
 public:
  /// Aborts the test if nobody listens. `receive_buffer`: bytes; 0: the system's choice.
  explicit RawClient(int port, int receive_buffer = 0);
  ~RawClient();
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// False: the server closed the connection.
  bool Send(std::string_view bytes);
  void StopSending();  ///< Shuts down its half of the connection.
  void Close();

  /// Bytes up to and including `end`, or all there are once the server closes.
  std::string ReadUntil(std::string_view end);
  /// One response, its body by Content-Length, chunks, or up to the connection's end. Absent: the
  /// connection ended (or 5 s passed) before a whole one.
  std::optional<RawResponse> ReadResponse();
  /// Whether the server closes the connection within `time`; what it sends before is thrown away.
  bool ClosedWithin(std::chrono::milliseconds time);

 private:
  bool Fill(std::chrono::milliseconds time);
  std::optional<std::string> Take(size_t size);
  std::optional<std::string> ReadChunks();

  int socket_ = -1;
  bool ended_ = false;
  std::string input_;
};

}  // namespace decant
