#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace decant {

/// A new folder where the system keeps such ones. It goes with the object, and all that is in it.
class TemporaryFolder {
 public:
  /// Throws std::filesystem::filesystem_error where none can be made.
  TemporaryFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "decant_test_XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::filesystem::filesystem_error("a temporary folder", pattern,
                                              {errno, std::generic_category()});
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Of the file or folder `name` in it.
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace decant
