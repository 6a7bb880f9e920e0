#include "bench/text_table.h"

#include <algorithm>
#include <string_view>

#include "base/check.h"

namespace decant {
namespace {

/// Code points, which is what a terminal shows for the text that stands in tables here.
size_t Width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

TextTable::TextTable(std::vector<std::string> columns) { rows_.push_back(std::move(columns)); }

void TextTable::AddRow(std::vector<std::string> cells) {
  DECANT_CHECK(cells.size() == rows_.front().size(), "{} cells for {} columns", cells.size(),
               rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::ToString() const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  size_t total = 2 * (widths.size() - 1);
  for (const size_t width : widths) total += width;

  std::string out;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string& cell = rows_[r][i];
      const std::string padding(widths[i] - Width(cell), ' ');
      if (i > 0) line += "  ";
      line += i == 0 ? cell + padding : padding + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
    if (r == 0) out += std::string(total, '-') + "\n";
  }
  return out;
}

}  // namespace decant
