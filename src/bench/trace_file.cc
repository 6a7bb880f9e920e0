#include "bench/trace_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>

namespace decant {
namespace {

constexpr double kMostSeconds = 1e9;  // 31 years
constexpr int32_t kMostTokens = 1 << 30;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Takes a CSV file apart, line by line; a quoted cell may go over several.
class CsvLines {
 public:
  explicit CsvLines(std::string_view text) : rest_(text) {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
  }

  bool done() const { return rest_.empty(); }
  /// Of the line that Next gave last, from 1.
  int64_t number() const { return number_; }

  /// The next line's cells.
  Expected<std::vector<std::string>> Next() {
    number_ = next_number_++;
    std::vector<std::string> cells;
    do {
      std::string cell;
      DECANT_RETURN_IF_ERROR(rest_.starts_with('"') ? TakeQuoted(cell) : TakePlain(cell));
      cells.push_back(std::move(cell));
    } while (TakeIf(','));
    TakeIf('\r');
    TakeIf('\n');
    return cells;
  }

 private:
  bool TakeIf(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// Whether a cell may end here.
  bool AtCellEnd() const {
    return rest_.empty() || rest_.starts_with(',') || rest_.starts_with('\n') ||
           rest_.starts_with("\r\n") || rest_ == "\r";
  }

  Status TakePlain(std::string& cell) {
    size_t length = 0;
    while (length < rest_.size() &&
           std::string_view(",\n\"").find(rest_[length]) == std::string_view::npos) {
      ++length;
    }
    const bool quote = length < rest_.size() && rest_[length] == '"';
    if (quote)
      return DataLoss("line {}: a quote within a cell that does not begin with it", number_);
    cell = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return Status();
  }

  Status TakeQuoted(std::string& cell) {
    TakeIf('"');
    for (;;) {
      const size_t length = rest_.find('"');
      if (length == std::string_view::npos) {
        return DataLoss("line {}: a quote that does not end", number_);
      }
      const std::string_view part = rest_.substr(0, length);
      next_number_ += std::count(part.begin(), part.end(), '\n');
      cell += part;
      rest_.remove_prefix(length + 1);
      if (!TakeIf('"')) break;
      cell += '"';
    }
    if (AtCellEnd()) return Status();
    return DataLoss("line {}: text behind a closing quote", number_);
  }

  std::string_view rest_;
  int64_t number_ = 0;
  int64_t next_number_ = 1;
};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

enum Column { kArrival, kPrompt, kOutput };
constexpr std::array<std::string_view, 3> kNames = {"arrival_s", "prompt_tokens", "output_tokens"};

/// Where each of kNames stands in the file.
using Places = std::array<size_t, kNames.size()>;

Expected<Places> FindColumns(const std::vector<std::string>& header, int64_t line) {
  Places places{};
  for (size_t i = 0; i < kNames.size(); ++i) {
    const auto named = [&](const std::string& cell) { return Trim(cell) == kNames[i]; };
    const auto found = std::find_if(header.begin(), header.end(), named);
    if (found == header.end()) return DataLoss("line {}: no column {}", line, kNames[i]);
    if (std::count_if(header.begin(), header.end(), named) > 1) {
      return DataLoss("line {}: two columns {}", line, kNames[i]);
    }
    places[i] = static_cast<size_t>(found - header.begin());
  }
  return places;
}

/// The cell of `column` as a number in [least, most].
template <typename T>
Expected<T> ParseCell(const std::vector<std::string>& cells, const Places& places, Column column,
                      T least, T most, int64_t line) {
  const std::string_view text = Trim(cells[places[column]]);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && value >= least && value <= most) return value;
  return DataLoss("line {}: {} is '{}'; allowed: {} to {}", line, kNames[column], text, least,
                  most);
}

Expected<TraceRequest> ParseRequest(const std::vector<std::string>& cells, const Places& places,
                                    int64_t line) {
  const size_t needed = *std::max_element(places.begin(), places.end()) + 1;
  if (cells.size() < needed) {
    return DataLoss("line {}: {} cells; the named columns need {}", line, cells.size(), needed);
  }
  TraceRequest request;
  DECANT_ASSIGN_OR_RETURN(request.arrival,
                          ParseCell(cells, places, kArrival, 0.0, kMostSeconds, line));
  DECANT_ASSIGN_OR_RETURN(request.prompt_tokens,
                          ParseCell(cells, places, kPrompt, 1, kMostTokens, line));
  DECANT_ASSIGN_OR_RETURN(request.output_tokens,
                          ParseCell(cells, places, kOutput, 1, kMostTokens, line));
  return request;
}

bool IsEmptyLine(const std::vector<std::string>& cells) {
  return cells.size() == 1 && Trim(cells[0]).empty();
}

}  // namespace

Expected<std::vector<TraceRequest>> ParseTrace(std::string_view text) {
  CsvLines lines(text);
  if (lines.done()) return DataLoss("it is empty");
  DECANT_ASSIGN_OR_RETURN(const std::vector<std::string> header, lines.Next());
  DECANT_ASSIGN_OR_RETURN(const Places places, FindColumns(header, lines.number()));
  std::vector<TraceRequest> requests;
  while (!lines.done()) {
    DECANT_ASSIGN_OR_RETURN(const std::vector<std::string> cells, lines.Next());
    if (IsEmptyLine(cells)) continue;
    DECANT_ASSIGN_OR_RETURN(const TraceRequest request,
                            ParseRequest(cells, places, lines.number()));
    if (!requests.empty() && request.arrival < requests.back().arrival) {
      return DataLoss("line {}: the request at {} s stands behind one at {} s; sort them by {}",
                      lines.number(), request.arrival, requests.back().arrival, kNames[kArrival]);
    }
    requests.push_back(request);
  }
  if (requests.empty()) return DataLoss("it has no requests");
  return requests;
}

Expected<std::vector<TraceRequest>> ReadTrace(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(path, error)) {
    return Error(StatusCode::kNotFound, "cannot read the trace {}", path.string());
  }
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  Expected<std::vector<TraceRequest>> trace = ParseTrace(text);
  if (!trace.ok()) return trace.status().WithContext(path.string());
  return trace;
}

}  // namespace decant
