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
    case Target::kStdout: {
      const std::string line = record.ToJson() + "\n";
      std::fwrite(line.data(), 1, line.size(), stdout);
      std::fflush(stdout);
      return;
    }
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

}  // namespace decant
