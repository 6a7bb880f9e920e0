#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "bench/gates/gate_report.h"
#include "ops/ops_factory.h"

namespace decant {

/// What `decant gate kernel` compares.
struct KernelGateOptions {
  std::vector<int32_t> head_dims{};
  std::vector<int32_t> groups{};      ///< Query heads that share a KV head.
  std::vector<int32_t> page_sizes{};  ///< slots
  std::vector<int32_t> lengths{};     ///< Context lengths, each alone and in mixed batches.
  std::vector<int32_t> batches{};     ///< Rows of the mixed batches.
  /// Where bits are compared: page sizes (none: nowhere), and how prompts are cut (2 or more).
  std::vector<int32_t> bit_page_sizes{};
  std::vector<int32_t> bit_chunks{};
  int32_t kv_heads = 2;
  /// Empty: every kernel that the backend has.
  std::vector<DecodeKernel> kernels{};
  uint64_t seed = 0;

  /// Lengths up to 8000 around every power of two that a kernel may cut at, batches to 64, head
  /// dims 64 and 128, groups 1 to 8 and 16, pages of 64 and 256.
  static KernelGateOptions Full();
  /// Lengths up to 257, batches to 8, four shapes: seconds, also under a sanitizer.
  static KernelGateOptions Quick();
};

/// Refuses empty lists and numbers out of range, by name.
Status ValidateKernelGate(const KernelGateOptions& options);

/// Told before each shape: how many of how many are done.
using ShapeProgress = std::function<void(int32_t done, int32_t shapes)>;

/// Every decode kernel and the prompt kernel against plain attention in fp32 over the history that
/// is rebuilt from the pages. A row passes where its largest error is at most twice that of the
/// same computation rounded to the storage type (docs/gates.md). Where `split` is among the
/// kernels, its outputs and those of the prompt kernel beside it must also have the same bits
/// however requests stand together (kernel_invariance.h). Errors: what the factory cannot make;
/// cancelled, after an interrupt.
Expected<GateReport> RunKernelGate(const OpsFactory& make_ops, const KernelGateOptions& options,
                                   const ShapeProgress& progress);

}  // namespace decant
