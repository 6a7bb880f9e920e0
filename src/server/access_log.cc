#include "server/access_log.h"

#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

namespace decant {

std::string AccessRecord::ToJson() const {
  constexpr double kMicrosPerSecond = 1e6;
  return JsonObject()
      .Add("time", UtcTimestamp())
      .Add("id", id)
      .Add("client", client)
      .Add("method", method)
      .Add("path", path)
      .Add("status", status)
      .Add("bytes", bytes)
      .Add("seconds", std::round(seconds * kMicrosPerSecond) / kMicrosPerSecond)
      .Add("streamed", streamed)
      .Add("complete", complete)
      .ToString();
}

Expected<std::unique_ptr<AccessLog>> AccessLog::Open(std::string_view target) {
  const auto make = [](Target kind, std::optional<OutputFile> file) {
    return std::unique_ptr<AccessLog>(new AccessLog(kind, std::move(file)));
  };
  if (target == "log") return make(Target::kLog, std::nullopt);
  if (target == "-") return make(Target::kStdout, std::nullopt);
  if (target == "off") return make(Target::kOff, std::nullopt);
  if (target.empty()) return InvalidArgument("--access-log takes log, -, off or a file's name");
  DECANT_ASSIGN_OR_RETURN(OutputFile file,
                          OutputFile::Open(std::string(target), OutputMode::kAppend));
  return make(Target::kFile, std::move(file));
}

void AccessLog::Write(const AccessRecord& record) {
  switch (target_) {
    case Target::kOff:
      return;
    case Target::kLog:
      if (LogEnabled(LogLevel::kInfo)) LogInfo("{}", record.ToJson());
      return;
    case Target::kStdout:
      return WriteToStdout(record.ToJson() + "\n");
    case Target::kFile: {
      const std::lock_guard lock(mutex_);
      if (!file_) return;
      const Status status = file_->WriteLine(record.ToJson());
      if (status.ok()) return;
      LogError("access log: {}; it ends here", status.message());
      file_.reset();
      return;
    }
  }
}

void AccessLog::WriteToStdout(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (ended_) return;
  const bool written =
      std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0;
  if (written) return;
  ended_ = true;
  std::clearerr(stdout);  // told of here, so that it is no error of the program's at its end
  LogError("access log: standard output cannot be written; it ends here");
}

}  // namespace decant
