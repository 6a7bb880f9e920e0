#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// The rows of a file of results that decant itself wrote: comma-separated, the first line names
/// the columns, no quoted cells.
class ResultTable {
 public:
  /// Errors, naming the file: not found; data loss, for a line with another number of cells than
  /// the first, or with a quote.
  static Expected<ResultTable> Read(const std::filesystem::path& path);
  static Expected<ResultTable> Parse(std::string_view text);

  size_t rows() const { return rows_.size(); }
  bool Has(std::string_view column) const;

  /// A cell. Errors: data loss, where there is no such column, or no number that is asked for.
  Expected<std::string> Text(size_t row, std::string_view column) const;
  Expected<double> Number(size_t row, std::string_view column) const;  ///< Empty cells are 0.
  Expected<int64_t> Integer(size_t row, std::string_view column) const;

 private:
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace decant
