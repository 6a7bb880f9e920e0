#include "base/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

namespace decant {
namespace {

std::filesystem::path PartPath(const std::filesystem::path& path) {
  std::filesystem::path part = path;
  part += ".part";
  return part;
}

Status SystemError(std::string_view doing, const std::filesystem::path& path) {
  return Error(StatusCode::kInternal, "cannot {} {}: {}", doing, path.string(),
               std::generic_category().message(errno));
}

}  // namespace

Expected<OutputFile> OutputFile::Open(std::filesystem::path path, OutputMode mode) {
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    if (error) {
      return Error(StatusCode::kInternal, "cannot make the folder {}: {}",
                   path.parent_path().string(), error.message());
    }
  }
  const std::filesystem::path target = mode == OutputMode::kReplace ? PartPath(path) : path;
  const int flags =
      O_WRONLY | O_CREAT | O_CLOEXEC | (mode == OutputMode::kReplace ? O_TRUNC : O_APPEND);
  const int descriptor = open(target.c_str(), flags, 0644);
  if (descriptor < 0) return SystemError("open", target);
  struct stat info {};
  const bool had_content = fstat(descriptor, &info) == 0 && info.st_size > 0;
  return OutputFile(std::move(path), mode, descriptor, had_content);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      mode_(other.mode_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      had_content_(other.had_content_) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  if (this != &other) {
    Abandon();
    path_ = std::move(other.path_);
    mode_ = other.mode_;
    descriptor_ = std::exchange(other.descriptor_, -1);
    had_content_ = other.had_content_;
  }
  return *this;
}

OutputFile::~OutputFile() { Abandon(); }

std::filesystem::path OutputFile::WritingPath() const {
  return mode_ == OutputMode::kReplace ? PartPath(path_) : path_;
}

void OutputFile::Abandon() {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  if (mode_ == OutputMode::kReplace) unlink(WritingPath().c_str());
}

Status OutputFile::WriteLine(std::string_view line) {
  DECANT_CHECK(descriptor_ >= 0, "a line was written to {} after it was closed", path_.string());
  std::string text(line);
  text += '\n';
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("write to", WritingPath());
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

Status OutputFile::Close() {
  if (descriptor_ < 0) return Status();
  if (close(std::exchange(descriptor_, -1)) != 0) return SystemError("write to", WritingPath());
  if (mode_ == OutputMode::kReplace && std::rename(WritingPath().c_str(), path_.c_str()) != 0) {
    return SystemError("put in place", path_);
  }
  return Status();
}

}  // namespace decant
