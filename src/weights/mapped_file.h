#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace decant {

/// A whole file, mapped read-only. Its bytes stay where they are when the object moves. Pages are
/// read when first touched; where someone cuts the file short meanwhile, that ends the process with
/// a message and status 1 (bus_guard.h), so replace model files by rename.
class MappedFile {
 public:
  /// Maps the regular file at `path`. Errors name the file and what the system said: not found, no
  /// permission, a directory, a pipe. An empty file maps to an empty span.
  static Expected<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Asks the system to read the whole file ahead of its use; returns at once.
  void Prefetch() const;

  /// Lets go of the memory behind the whole pages inside `part` of bytes(); they are read from the
  /// file again when touched. Nothing where `part` lies elsewhere.
  void Release(std::span<const std::byte> part) const;

 private:
  MappedFile(std::string path, std::span<const std::byte> bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace decant
