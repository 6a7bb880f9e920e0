#include "base/csv_writer.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>

namespace decant {
namespace {

void AppendCell(std::string& line, std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += '"';
  for (const char c : text) {
    if (c == '"') line += '"';
    line += c;
  }
  line += '"';
}

std::string JoinCells(std::span<const CsvCell> cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += ',';
    AppendCell(line, cells[i].text());
  }
  return line;
}

}  // namespace

CsvCell::CsvCell(double value) : text_(std::isnan(value) ? "" : fmt::format("{}", value)) {}

Expected<CsvWriter> CsvWriter::Open(const std::filesystem::path& path,
                                    const std::vector<std::string>& columns, OutputMode mode) {
  DECANT_CHECK(!columns.empty(), "a CSV file needs columns");
  const std::vector<CsvCell> names(columns.begin(), columns.end());
  const std::string header = JoinCells(names);
  DECANT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::Open(path, mode));
  if (mode == OutputMode::kAppend && file.had_content()) {
    std::string first;
    std::getline(std::ifstream(path), first);
    if (first != header) {
      return InvalidArgument("{} has the columns '{}', not '{}': write to another file",
                             path.string(), first, header);
    }
  } else {
    DECANT_RETURN_IF_ERROR(file.WriteLine(header));
  }
  return CsvWriter(std::move(file), columns.size());
}

Status CsvWriter::WriteRow(std::span<const CsvCell> cells) {
  DECANT_CHECK(cells.size() == columns_, "{} cells for {} columns", cells.size(), columns_);
  return file_.WriteLine(JoinCells(cells));
}

}  // namespace decant
