#include "apps/overlap_flag.h"

#include <CLI/CLI.hpp>

namespace decant {

void AddOverlapFlag(CLI::App& app, std::vector<std::string>& overlaps) {
  app.add_option("--overlap", overlaps,
                 "Whether a kernel may be set up while the one before it ends (programmatic "
                 "dependent launch), on GPUs that can: on, off (default: both)")
      ->delimiter(',')
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("NAME,...");
}

std::vector<KernelOverlap> ReadOverlaps(const std::vector<std::string>& overlaps) {
  std::vector<KernelOverlap> read;
  read.reserve(overlaps.size());
  for (const std::string& name : overlaps) {
    read.push_back(name == "on" ? KernelOverlap::kAllowed : KernelOverlap::kNone);
  }
  return read;
}

}  // namespace decant
