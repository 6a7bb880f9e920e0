#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "sched/step_plan.h"

namespace decant {

// Reading of files of JSON lines that need not be what they say they are. `value` is null where a
// key is missing; errors are data loss and name `key`.

/// The value under `key`; null where there is none, or where `object` is no object.
const nlohmann::json* FindKey(const nlohmann::json& object, std::string_view key);

/// A whole number in [least, most].
Expected<int64_t> ReadInteger(const nlohmann::json* value, std::string_view key, int64_t least,
                              int64_t most);

/// A list of ids in [0, vocab), not empty.
Expected<std::vector<Token>> ReadTokens(const nlohmann::json* value, std::string_view key,
                                        int32_t vocab);

/// A string.
Expected<std::string> ReadName(const nlohmann::json* value, std::string_view key);

/// Calls `take` for every line, with its number from 1. Errors: not found for a file that cannot be
/// read; data loss for one over 256 MiB or a line that is no JSON or nested over 8 deep; what
/// `take` returns. All name the file, and the line.
Status ForEachJsonLine(
    const std::filesystem::path& path,
    const std::function<Status(int64_t number, const nlohmann::json& line)>& take);

}  // namespace decant
