#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/run_header.h"
#include "base/status.h"
#include "bench/kernel_bench.h"
#include "engine/compute_type.h"
#include "engine/device.h"
#include "ops/ops_factory.h"

namespace CLI {
class App;
}

namespace decant {

/// The flags of benches that time attention by itself: where, whose, how often.
struct KernelFlags {
  std::string device = "auto";
  std::string dtype = "auto";
  int32_t threads = 0;
  std::vector<std::string> decode_kernels{};
  KernelShape shape{};
  int32_t repeats = 10;
  std::string out{};
};

/// Adds --device, --dtype, --threads, --decode-kernel, --heads, --kv-heads, --head-dim, --layers,
/// --repeats and --out. `out_help` describes the last.
void AddKernelFlags(CLI::App& app, KernelFlags& flags, const std::string& out_help);

/// What the flags ask for, read.
struct KernelSetting {
  Device device{};
  OpsFactory make_ops{};
  /// Those named, or, where none is, every one there is.
  std::vector<DecodeKernel> kernels{};
  int64_t max_cache_bytes = 0;  ///< On the CPU most of the machine's memory; 0: no limit of ours.
};

/// Errors: invalid argument that names the flag and what it takes; a device or a kernel that is not
/// there.
Expected<KernelSetting> ReadKernelFlags(const KernelFlags& flags, const MachineInfo& machine);

}  // namespace decant
