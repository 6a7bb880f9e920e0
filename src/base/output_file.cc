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
    if (written < 0) {
      Status status = SystemError("write to", WritingPath());
      TakeBack(text.size() - rest.size());
      return status;
    }
    rest.remove_prefix(static_cast<size_t>(written));
  }
  return Status();
}

/// Takes `written` bytes of a line that was not finished out of a file that is appended to, if they
/// are still its last ones; a file that began with them goes.
void OutputFile::TakeBack(size_t written) {
  if (mode_ != OutputMode::kAppend) return;  // Abandon removes the whole part
  struct stat info {};
  const off_t end = lseek(descriptor_, 0, SEEK_CUR);
  if (end < 0 || fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) return;
  const off_t begin = written > 0 ? end - static_cast<off_t>(written) : info.st_size;
  if (written > 0 && (info.st_size != end || ftruncate(descriptor_, begin) != 0)) return;
  if (begin == 0 && !had_content_) unlink(path_.c_str());
}

Status OutputFile::Close() {
  if (descriptor_ < 0) return Status();
  const bool closed = close(std::exchange(descriptor_, -1)) == 0;
  if (mode_ == OutputMode::kAppend) {
    return closed ? Status() : SystemError("write to", path_);
  }
  if (closed && std::rename(WritingPath().c_str(), path_.c_str()) == 0) return Status();
  Status status = SystemError(closed ? "put in place" : "write to", path_);
  unlink(WritingPath().c_str());
  return status;
}

}  // namespace decant
