#include "sim/result_table.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <utility>

namespace decant {
namespace {

std::vector<std::string> SplitLine(std::string_view line) {
  std::vector<std::string> cells;
  for (;;) {
    const size_t comma = line.find(',');
    cells.emplace_back(line.substr(0, comma));
    if (comma == std::string_view::npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

Expected<ResultTable> ResultTable::Read(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) return Error(StatusCode::kNotFound, "{} cannot be read", path.string());
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Expected<ResultTable> table = Parse(text);
  if (!table.ok()) return table.status().WithContext(path.string());
  return table;
}

Expected<ResultTable> ResultTable::Parse(std::string_view text) {
  ResultTable table;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (line.empty()) continue;
    if (line.find('"') != std::string_view::npos) {
      return DataLoss("line {}: a quote; rows of results have none", number);
    }
    std::vector<std::string> cells = SplitLine(line);
    if (table.columns_.empty()) {
      table.columns_ = std::move(cells);
    } else if (cells.size() == table.columns_.size()) {
      table.rows_.push_back(std::move(cells));
    } else {
      return DataLoss("line {}: {} cells; the first line names {} columns", number, cells.size(),
                      table.columns_.size());
    }
  }
  return table;
}

bool ResultTable::Has(std::string_view column) const {
  return std::ranges::find(columns_, column) != columns_.end();
}

Expected<std::string> ResultTable::Text(size_t row, std::string_view column) const {
  const auto found = std::ranges::find(columns_, column);
  if (found == columns_.end()) return DataLoss("no column {}", column);
  return rows_[row][static_cast<size_t>(found - columns_.begin())];
}

Expected<double> ResultTable::Number(size_t row, std::string_view column) const {
  DECANT_ASSIGN_OR_RETURN(const std::string text, Text(row, column));
  double value = 0;
  if (text.empty()) return value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return DataLoss("row {}: {} is '{}'; allowed: a number", row + 1, column, text);
}

Expected<int64_t> ResultTable::Integer(size_t row, std::string_view column) const {
  DECANT_ASSIGN_OR_RETURN(const double value, Number(row, column));
  const auto whole = static_cast<int64_t>(value);
  if (static_cast<double>(whole) == value) return whole;
  return DataLoss("row {}: {} is {}; allowed: a whole number", row + 1, column, value);
}

}  // namespace decant
