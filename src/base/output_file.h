#pragma once

#include <filesystem>
#include <string_view>

#include "base/status.h"

namespace decant {

/// What becomes of a file that is there already.
enum class OutputMode {
  kReplace,  ///< It stays as it was until Close puts the new one in its place.
  kAppend,   ///< Lines are added to it, each by one write, so none is ever half there.
};

/// A text file written line by line that is never seen half-written. In kReplace the lines go to
/// PATH.part, which Close renames to PATH; without Close (an error, an interrupt) PATH.part is
/// removed and PATH stays as it was. A line that could not be written whole (a full disk) is taken
/// out again. Missing parent folders are made.
class OutputFile {
 public:
  static Expected<OutputFile> Open(std::filesystem::path path, OutputMode mode);

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&& other) noexcept;
  ~OutputFile();

  /// Writes `line` and a line break; `line` holds none of its own, save inside a quoted CSV cell.
  Status WriteLine(std::string_view line);

  /// Makes the file final; no line may follow. Closing twice is fine.
  Status Close();

  /// Whether the file held something when it was opened for appending.
  bool had_content() const { return had_content_; }

 private:
  OutputFile(std::filesystem::path path, OutputMode mode, int descriptor, bool had_content)
      : path_(std::move(path)), mode_(mode), descriptor_(descriptor), had_content_(had_content) {}

  std::filesystem::path WritingPath() const;
  void Abandon();
  void TakeBack(size_t written);

  std::filesystem::path path_;
  OutputMode mode_;
  int descriptor_;  // -1 once closed or moved from
  bool had_content_;
};

}  // namespace decant
