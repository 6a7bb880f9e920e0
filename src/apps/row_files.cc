#include "apps/row_files.h"

#include <filesystem>
#include <utility>

#include "base/check.h"

namespace decant {

Expected<RowFiles> RowFiles::Open(const std::string& folder, std::string_view name,
                                  std::vector<std::string> columns, const RunHeader& header) {
  if (folder.empty()) return RowFiles(std::nullopt);
  const std::filesystem::path path = std::filesystem::path(folder) / name;
  std::vector<std::string> all = {"utc_time", "commit"};
  all.insert(all.end(), columns.begin(), columns.end());
  DECANT_ASSIGN_OR_RETURN(CsvWriter csv,
                          CsvWriter::Open(path.string() + ".csv", all, OutputMode::kAppend));
  DECANT_ASSIGN_OR_RETURN(JsonlWriter jsonl,
                          JsonlWriter::Open(path.string() + ".jsonl", OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(ToJson(header)));
  return RowFiles(Files{.csv = std::move(csv),
                        .jsonl = std::move(jsonl),
                        .columns = std::move(columns),
                        .utc_time = header.utc_time,
                        .commit = header.commit});
}

Status RowFiles::Add(std::span<const RowValue> values) {
  if (!files_) return Status();
  DECANT_CHECK(values.size() == files_->columns.size(), "{} values for {} columns", values.size(),
               files_->columns.size());
  std::vector<CsvCell> cells = {files_->utc_time, files_->commit};
  JsonObject row;
  for (size_t i = 0; i < values.size(); ++i) {
    std::visit(
        [&](const auto& value) {
          cells.emplace_back(value);
          row.Add(files_->columns[i], value);
        },
        values[i]);
  }
  DECANT_RETURN_IF_ERROR(files_->csv.WriteRow(cells));
  return files_->jsonl.Write(JsonObject().Add("row", row));
}

Status RowFiles::Close() {
  if (!files_) return Status();
  DECANT_RETURN_IF_ERROR(files_->csv.Close());
  return files_->jsonl.Close();
}

}  // namespace decant
