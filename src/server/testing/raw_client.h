#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace decant {

/// How long a test waits for what must come: far longer than a busy machine takes, and shorter than
/// the server's own patience with idle connections.
inline constexpr std::chrono::milliseconds kPatience{60'000};

/// An answer as a client reads it; header names in lower case.
struct RawResponse {
  int status = 0;
  std::map<std::string, std::string> headers{};
  std::string body{};  ///< Without the framing of chunks.
};

/// A TCP connection to a server on this machine that sends exactly the bytes it is given, for tests
/// of what well-behaved clients never do. Every wait has an end: kPatience.
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

  /// Whether something has come that is not read yet, or the server has closed the connection.
  bool HasInput() const;
  /// Bytes up to and including `end`, or all there are once the server closes.
  std::string ReadUntil(std::string_view end);
  /// One response, its body by Content-Length, chunks, or up to the connection's end. Absent: the
  /// connection ended (or kPatience passed) before a whole one.
  std::optional<RawResponse> ReadResponse();
  /// Whether the server closes the connection; what it sends before is thrown away.
  bool IsClosed();

 private:
  bool Fill();
  std::optional<std::string> Take(size_t size);
  std::optional<std::string> ReadChunks();

  int socket_ = -1;
  bool ended_ = false;
  std::string input_;
};

}  // namespace decant
