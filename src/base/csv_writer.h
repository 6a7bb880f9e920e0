#pragma once

#include <concepts>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/status.h"

namespace decant {

/// One cell: text, a whole number, or a double in the shortest form that reads back the same
/// (empty for NaN).
class CsvCell {
 public:
  CsvCell(std::string_view text) : text_(text) {}        // NOLINT(google-explicit-constructor)
  CsvCell(const char* text) : text_(text) {}             // NOLINT(google-explicit-constructor)
  CsvCell(std::string text) : text_(std::move(text)) {}  // NOLINT(google-explicit-constructor)
  CsvCell(double value);                                 // NOLINT(google-explicit-constructor)
  template <std::integral T>
  CsvCell(T value) : text_(std::to_string(value)) {}  // NOLINT(google-explicit-constructor)

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Writes comma-separated values (RFC 4180, with plain line breaks): a first row of column names,
/// then rows of as many cells. See OutputFile for what an interrupt leaves.
class CsvWriter {
 public:
  /// In kAppend the names are written only to an empty file; a file whose first row differs is
  /// refused.
  static Expected<CsvWriter> Open(const std::filesystem::path& path,
                                  const std::vector<std::string>& columns, OutputMode mode);

  /// `cells` has one cell for each column.
  Status WriteRow(std::span<const CsvCell> cells);
  Status WriteRow(std::initializer_list<CsvCell> cells) {
    return WriteRow(std::span<const CsvCell>(cells.begin(), cells.size()));
  }

  /// Makes the file final.
  Status Close() { return file_.Close(); }

 private:
  CsvWriter(OutputFile file, size_t columns) : file_(std::move(file)), columns_(columns) {}

  OutputFile file_;
  size_t columns_;
};

}  // namespace decant
