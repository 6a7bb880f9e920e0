#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/workload.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace decant {

/// The flags that say which requests a benchmark makes; every bench that makes its own has them.
struct WorkloadFlags {
  std::vector<uint64_t> mixed_seeds{};
  std::optional<std::string> prompts{};
  std::vector<int32_t> prompt_lengths{};
  std::optional<std::string> budget{};
  double scale = 1;
};

/// How requests are drawn, and what rows of results call them: "mixed seed 0", "p256 scale 0.5".
struct NamedWorkload {
  std::string name{};
  WorkloadOptions options{};
};

/// Adds --mixed-seed, --prompts, --prompt-lengths, --budget and --scale. Returns them, for commands
/// that exclude them by another flag.
std::vector<CLI::Option*> AddWorkloadFlags(CLI::App& app, WorkloadFlags& flags);

/// One for each of --mixed-seed, in order. Errors: invalid argument that names the flag and what it
/// takes.
Expected<std::vector<NamedWorkload>> ReadWorkloads(const WorkloadFlags& flags);

/// For commands that take one seed. Errors: as above.
Expected<NamedWorkload> ReadWorkload(const WorkloadFlags& flags);

}  // namespace decant
