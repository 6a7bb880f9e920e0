#include "weights/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "base/narrow.h"
#include "weights/bus_guard.h"

namespace decant {
namespace {

Status SystemError(const std::string& path, const char* action, int error) {
  const StatusCode code = error == ENOENT ? StatusCode::kNotFound : StatusCode::kInvalidArgument;
  return Error(code, "{}: cannot {}: {}", path, action, std::generic_category().message(error));
}

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

Expected<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe without a writer would wait for ever; on a regular file it changes
  // nothing.
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return SystemError(path, "open", errno);

  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return SystemError(path, "read its size", errno);
  if (!S_ISREG(info.st_mode)) {
    return InvalidArgument("{}: not a regular file{}", path,
                           S_ISDIR(info.st_mode) ? " but a directory" : "");
  }
  if (info.st_size == 0) return MappedFile(path, {});

  const auto size = static_cast<size_t>(info.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (address == MAP_FAILED) return SystemError(path, "map into memory", errno);
  const std::span<const std::byte> bytes(static_cast<const std::byte*>(address), size);
  GuardMapping(bytes, path);
  return MappedFile(path, bytes);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  ForgetMapping(bytes_);
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::Prefetch() const {
  // A hint: where the system does not take it, pages are read when they are touched.
  if (!bytes_.empty()) {
    madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(), MADV_WILLNEED);
  }
}

void MappedFile::Release(std::span<const std::byte> part) const {
  // Part of another mapping wraps around to an offset past the end.
  const size_t offset =
      reinterpret_cast<uintptr_t>(part.data()) - reinterpret_cast<uintptr_t>(bytes_.data());
  if (offset > bytes_.size() || part.size() > bytes_.size() - offset) return;
  static const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t first = RoundUp(offset, page);
  const size_t end = (offset + part.size()) / page * page;
  if (first < end) {
    madvise(const_cast<std::byte*>(bytes_.data()) + first, end - first, MADV_DONTNEED);
  }
}

}  // namespace decant
