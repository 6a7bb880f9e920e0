#include "apps/kernel_flags.h"

#include <CLI/CLI.hpp>

#include "apps/make_ops.h"
#include "engine/preset.h"

namespace decant {

void AddKernelFlags(CLI::App& app, KernelFlags& flags, const std::string& out_help) {
  app.add_option("--device", flags.device,
                 "Where it computes: cpu, cuda, cuda:N, or auto (the first GPU, if there is one)")
      ->capture_default_str()
      ->type_name("DEVICE");
  app.add_option("--dtype", flags.dtype, "Type on CUDA: fp16, bf16 or auto (fp16)")
      ->capture_default_str()
      ->type_name("TYPE");
  app.add_option("--threads", flags.threads, "Threads that compute; 0: one for each processor")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--decode-kernel", flags.decode_kernels,
                 "Decode kernels: split, rows or flash (default: all that the device has)")
      ->delimiter(',')
      ->type_name("NAME,...");
  const auto number = [&app](const char* name, int32_t& value, int32_t most, const char* help) {
    app.add_option(name, value, help)
        ->capture_default_str()
        ->check(CLI::Range(1, most))
        ->type_name("N");
  };
  number("--heads", flags.shape.heads, 1024, "Query heads");
  number("--kv-heads", flags.shape.kv_heads, 1024, "KV heads");
  number("--head-dim", flags.shape.head_dim, 256, "Dims of a head");
  number("--layers", flags.shape.layers, 1024,
         "Layers that run one after another, each on K and V of its own; a time is their mean");
  number("--repeats", flags.repeats, 1 << 20,
         "Runs of all layers that count, after one that does not; the median is shown");
  app.add_option("--out", flags.out, out_help)->type_name("DIR");
}

Expected<KernelSetting> ReadKernelFlags(const KernelFlags& flags, const MachineInfo& machine) {
  DECANT_RETURN_IF_ERROR(ValidateKernelShape(flags.shape));
  KernelSetting setting;
  DECANT_ASSIGN_OR_RETURN(setting.device, FindDevice(flags.device));
  DECANT_ASSIGN_OR_RETURN(const ComputeType type, FindComputeType(flags.dtype));
  DECANT_ASSIGN_OR_RETURN(setting.kernels, FindDecodeKernels(flags.decode_kernels, setting.device));
  if (setting.kernels.empty()) {
    for (const DecodeKernel kernel : AllDecodeKernels()) {
      const std::string name(DecodeKernelName(kernel));
      if (FindDecodeKernel(name, setting.device).ok()) setting.kernels.push_back(kernel);
    }
  }
  setting.make_ops = MakeOpsFactory(setting.device, type, flags.threads);
  // An eighth stays for the rest of the machine.
  if (setting.device.kind == DeviceKind::kCpu) {
    setting.max_cache_bytes = machine.memory_bytes / 8 * 7;
  }
  return setting;
}

}  // namespace decant
