#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace decant {

/// What a figure depends on besides the code; never names the machine itself.
struct MachineInfo {
  std::string cpu_model;                  ///< As /proc/cpuinfo has it; "unknown" if it does not.
  std::vector<std::string> cpu_features;  ///< The vector and matrix extensions that matter here.
  int32_t logical_cores = 0;              ///< That this process may use.
  int64_t memory_bytes = 0;
  std::string os;                   ///< "Debian GNU/Linux 12 (bookworm)".
  std::string kernel;               ///< "6.1.0-13-amd64".
  std::vector<std::string> gpus{};  ///< NVIDIA GPUs by model: "NVIDIA H200"; maybe none.
  std::string gpu_driver{};         ///< "580.159.04"; empty without one.
};

/// Stands at the head of every file of results, so that its figures can be judged and repeated.
struct RunHeader {
  MachineInfo machine;
  std::string commit;                ///< `git describe` at build time; "unknown" outside git.
  std::vector<std::string> command;  ///< The arguments, program name first.
  uint64_t seed = 0;
  std::string utc_time;  ///< When the run began.
};

/// Looks at this machine.
MachineInfo DescribeMachine();

/// Fills MachineInfo::cpu_model and cpu_features from the text of /proc/cpuinfo.
void ParseCpuInfo(std::string_view cpuinfo, MachineInfo& machine);

/// The version in the text of /proc/driver/nvidia/version; empty if there is none.
std::string ParseDriverVersion(std::string_view text);

/// The commit this program was built from, "-dirty" added if files had changed since.
std::string_view BuildCommit();

/// The header of a run that starts now.
RunHeader MakeRunHeader(std::span<const char* const> command, uint64_t seed);

/// The header's fields, for a row that carries its own.
JsonObject HeaderFields(const RunHeader& header);

/// {"header": {...}}: the first line of a .jsonl file of results.
JsonObject ToJson(const RunHeader& header);

}  // namespace decant
