#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// A request that a service once had: when it came, and how many tokens went in and out.
struct TraceRequest {
  double arrival = 0;         ///< Seconds, >= 0, never before the request above it.
  int32_t prompt_tokens = 0;  ///< >= 1
  int32_t output_tokens = 0;  ///< >= 1

  bool operator==(const TraceRequest&) const = default;
};

/// Reads a trace: comma-separated values (RFC 4180; LF or CRLF) whose first line names the columns
/// arrival_s, prompt_tokens and output_tokens, in any place; other columns and empty lines are
/// passed over. Data loss, with the line's number: a column that is missing or there twice, a line
/// with too few cells, a number that is malformed or out of range, a request before the one above
/// it, a quote that does not end, no request at all.
Expected<std::vector<TraceRequest>> ParseTrace(std::string_view text);

/// The same for a file; errors name it. Not found: it cannot be opened.
Expected<std::vector<TraceRequest>> ReadTrace(const std::filesystem::path& path);

}  // namespace decant
