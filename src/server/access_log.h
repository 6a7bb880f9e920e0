#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/output_file.h"
#include "base/status.h"

namespace decant {

/// One answered request, as the access log tells it. No text of prompts or answers, no query.
struct AccessRecord {
  std::string id{};
  std::string client{};  ///< address:port
  std::string method{};
  std::string path{};
  int status = 0;      ///< 0: the client was gone before there was one.
  int64_t bytes = 0;   ///< Written to the socket, headers and framing included.
  double seconds = 0;  ///< From the request's first byte to the answer's last.
  bool streamed = false;
  bool complete = false;  ///< False: the client went away or was cut off before the end.

  /// A line of JSON: the fields above and "time" (UTC).
  std::string ToJson() const;
};

/// Writes a line a request. Any thread. A log that cannot be written ends, with an error in the
/// program's log; the server goes on.
class AccessLog {
 public:
  /// `target`: "log" (the program's log, level info), "-" (standard output), "off", or a file that
  /// lines are added to.
  static Expected<std::unique_ptr<AccessLog>> Open(std::string_view target);

  void Write(const AccessRecord& record);

 private:
  enum class Target { kOff, kLog, kStdout, kFile };

  explicit AccessLog(Target target, std::optional<OutputFile> file)
      : target_(target), file_(std::move(file)) {}

  void WriteToStdout(const std::string& line);

  const Target target_;
  std::mutex mutex_;
  bool ended_ = false;              // guarded by mutex_
  std::optional<OutputFile> file_;  // guarded by mutex_
};

}  // namespace decant
