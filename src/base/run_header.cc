#include "base/run_header.h"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/clock.h"

namespace decant {
namespace {

constexpr std::array<std::string_view, 8> kFeaturesThatMatter = {
    "avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_int8", "amx_bf16"};

std::string ReadAll(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// Takes the text up to `separator` off the front of `rest`.
std::string_view TakeUntil(std::string_view& rest, char separator) {
  const size_t end = rest.find(separator);
  const std::string_view head = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  return head;
}

std::vector<std::string> KnownFeatures(std::string_view flags) {
  std::vector<std::string> found;
  while (!flags.empty()) {
    const std::string_view flag = TakeUntil(flags, ' ');
    if (std::find(kFeaturesThatMatter.begin(), kFeaturesThatMatter.end(), flag) !=
        kFeaturesThatMatter.end()) {
      found.emplace_back(flag);
    }
  }
  return found;
}

std::string OsName() {
  constexpr std::string_view kKey = "PRETTY_NAME=";
  const std::string text = ReadAll("/etc/os-release");
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view line = TakeUntil(rest, '\n');
    if (!line.starts_with(kKey)) continue;
    line.remove_prefix(kKey.size());
    if (line.size() >= 2 && line.front() == '"') line = line.substr(1, line.size() - 2);
    return std::string(line);
  }
  return "unknown";
}

/// The value after "Model:" in the text of a GPU's /proc/driver/nvidia/gpus/*/information.
std::string GpuModel(std::string_view text) {
  while (!text.empty()) {
    std::string_view value = TakeUntil(text, '\n');
    if (Trim(TakeUntil(value, ':')) == "Model") return std::string(Trim(value));
  }
  return "unknown";
}

std::vector<std::string> GpuModels() {
  std::vector<std::string> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", error)) {
    models.push_back(GpuModel(ReadAll((entry.path() / "information").c_str())));
  }
  return models;
}

int32_t UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

void ParseCpuInfo(std::string_view cpuinfo, MachineInfo& machine) {
  machine.cpu_model = "unknown";
  machine.cpu_features.clear();
  while (!cpuinfo.empty()) {
    std::string_view value = TakeUntil(cpuinfo, '\n');
    const std::string_view key = Trim(TakeUntil(value, ':'));
    if (key == "model name" && machine.cpu_model == "unknown") machine.cpu_model = Trim(value);
    if (key == "flags" && machine.cpu_features.empty()) {
      machine.cpu_features = KnownFeatures(Trim(value));
    }
  }
}

std::string ParseDriverVersion(std::string_view text) {
  std::string_view line = TakeUntil(text, '\n');
  while (!line.empty()) {
    const std::string_view word = TakeUntil(line, ' ');
    const bool digits_and_points = word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (digits_and_points && word.find('.') != std::string_view::npos) return std::string(word);
  }
  return {};
}

MachineInfo DescribeMachine() {
  MachineInfo machine;
  ParseCpuInfo(ReadAll("/proc/cpuinfo"), machine);
  machine.logical_cores = UsableCores();
  machine.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  machine.os = OsName();
  utsname names{};
  machine.kernel = uname(&names) == 0 ? names.release : "unknown";
  machine.gpus = GpuModels();
  machine.gpu_driver = ParseDriverVersion(ReadAll("/proc/driver/nvidia/version"));
  return machine;
}

RunHeader MakeRunHeader(std::span<const char* const> command, uint64_t seed) {
  return {.machine = DescribeMachine(),
          .commit = std::string(BuildCommit()),
          .command = {command.begin(), command.end()},
          .seed = seed,
          .utc_time = UtcTimestamp()};
}

JsonObject HeaderFields(const RunHeader& header) {
  JsonArray features;
  for (const std::string& feature : header.machine.cpu_features) features.Add(feature);
  JsonArray command;
  for (const std::string& argument : header.command) command.Add(argument);
  JsonArray gpus;
  for (const std::string& gpu : header.machine.gpus) gpus.Add(gpu);
  JsonObject machine;
  machine.Add("cpu", header.machine.cpu_model)
      .Add("cpu_features", features)
      .Add("logical_cores", header.machine.logical_cores)
      .Add("memory_bytes", header.machine.memory_bytes)
      .Add("os", header.machine.os)
      .Add("kernel", header.machine.kernel)
      .Add("gpus", gpus)
      .Add("gpu_driver", header.machine.gpu_driver);
  JsonObject fields;
  fields.Add("machine", machine)
      .Add("commit", header.commit)
      .Add("command", command)
      .Add("seed", header.seed)
      .Add("utc_time", header.utc_time);
  return fields;
}

JsonObject ToJson(const RunHeader& header) {
  return JsonObject().Add("header", HeaderFields(header));
}

}  // namespace decant
