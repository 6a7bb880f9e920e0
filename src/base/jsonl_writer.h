#pragma once

#include <filesystem>
#include <utility>

#include "base/json.h"
#include "base/output_file.h"
#include "base/status.h"

namespace decant {

/// Writes JSON Lines: one object a line. See OutputFile for what an interrupt leaves.
class JsonlWriter {
 public:
  static Expected<JsonlWriter> Open(std::filesystem::path path, OutputMode mode) {
    DECANT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(std::move(path), mode));
    return JsonlWriter(std::move(file));
  }

  Status Write(const JsonObject& object) { return file_.WriteLine(object.ToString()); }

  /// Makes the file final.
  Status Close() { return file_.Close(); }

 private:
  explicit JsonlWriter(OutputFile file) : file_(std::move(file)) {}

  OutputFile file_;
};

}  // namespace decant
