#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/run_header.h"
#include "bench/gates/near_tie.h"

namespace decant {

/// What a gate compared and found.
struct GateReport {
  std::string gate{};
  JsonObject compared{};  ///< Sizes, settings and counts.
  std::string table{};    ///< The same for people.
  double largest_difference = 0;
  /// In units in the last place of the storage type, where outputs of a kernel were compared.
  std::optional<double> largest_ulps{};
  std::vector<FlipSite> flip_sites{};
  std::vector<std::string> notes{};     ///< What was left out, and why.
  std::vector<std::string> failures{};  ///< Empty: passed.

  bool passed() const { return failures.empty(); }
};

/// One line of gates.jsonl: gate, passed, compared, largest_difference, largest_ulps, flip_sites,
/// notes, failures, header.
JsonObject ToJson(const GateReport& report, const RunHeader& header);

/// The table, the notes, the flip sites, and a last line: "gate NAME: passed", or why not.
std::string ToText(const GateReport& report);

}  // namespace decant
