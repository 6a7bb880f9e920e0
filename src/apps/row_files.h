#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/csv_writer.h"
#include "base/jsonl_writer.h"
#include "base/run_header.h"
#include "base/status.h"

namespace decant {

/// A value of a row of results. NaN is an empty cell in CSV, null in JSON.
using RowValue = std::variant<std::string, int64_t, double>;

/// The same rows in two files of one folder, both added to: NAME.csv, whose first columns are
/// utc_time and commit, and NAME.jsonl, a header and then {"row": {...}} for each. A row stands in
/// both as soon as it is added, whatever happens later.
class RowFiles {
 public:
  /// An empty `folder`: nothing is written. `columns`: those after utc_time and commit.
  static Expected<RowFiles> Open(const std::string& folder, std::string_view name,
                                 std::vector<std::string> columns, const RunHeader& header);

  /// One value for each of `columns`.
  Status Add(std::span<const RowValue> values);
  Status Close();

 private:
  struct Files {
    CsvWriter csv;
    JsonlWriter jsonl;
    std::vector<std::string> columns;
    std::string utc_time;
    std::string commit;
  };

  explicit RowFiles(std::optional<Files> files) : files_(std::move(files)) {}

  std::optional<Files> files_;
};

}  // namespace decant
