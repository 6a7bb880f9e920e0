#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/machine_probe.h"
#include "bench/overlap_choice.h"
#include "ops/ops_factory.h"

namespace decant {

/// A linear layer of a model, by what stands around it in a step, which is timed with it.
enum class LinearKind {
  kQkv,         ///< RMSNorm before it, rotary embedding and K and V to their slots behind it
  kProjection,  ///< added to the residual
  kGateUp,  ///< RMSNorm before it, SiLU(gate) * up behind it; the first half of the rows are gates
  kHead,    ///< RMSNorm before it; fp32 logits
};

/// A weight [rows, cols] and what it is for.
struct LinearProduct {
  std::string name{};  ///< "qkv", "o", "gate_up", "down", "head"
  LinearKind kind = LinearKind::kProjection;
  int32_t rows = 0;
  int32_t cols = 0;
  int32_t weights = 1;  ///< How many of the kind run one after another, each with its own weight.
  int32_t most_tokens = 1 << 20;  ///< More are not timed.
  /// kQkv: whose rows these are, heads + 2 * kv_heads heads of head_dim.
  int32_t heads = 1;
  int32_t kv_heads = 1;
  int32_t head_dim = 64;
};

/// A layer's products, `layers` weights each, and the head, which is for rows that sample: up to
/// 256 tokens.
std::vector<LinearProduct> ProductsOf(const DecoderShape& shape, int32_t layers);

/// What one product takes.
struct LinearResult {
  LinearLayers linear = LinearLayers::kLibrary;
  TimedOverlap overlap{};
  LinearProduct product{};
  DType dtype = DType::kF16;  ///< Of weights and inputs.
  int32_t tokens = 0;
  double median = 0;  ///< seconds, of the repeats' means over the weights
  double least = 0;
  double most = 0;
  double bytes = 0;       ///< The weight and the input once, the output once, a residual twice.
  double operations = 0;  ///< A multiply-add counts two.
  double floor = 0;       ///< seconds

  double times_floor() const { return median / floor; }
};

struct LinearBenchOptions {
  std::vector<LinearProduct> products{};
  std::vector<LinearLayers> linears{};
  std::vector<int32_t> tokens{};
  int32_t repeats = 10;
  std::vector<KernelOverlap> overlaps{};  ///< As ChooseOverlaps takes them.
};

struct LinearBenchReport {
  std::string backend{};
  MachineRates rates{};
  std::vector<LinearResult> results{};
};

/// Times every product with every kind of linear layers and number of tokens, weights of random
/// numbers. `on_result` is told of each as it is known; what it returns ends the bench unless ok.
/// Errors: invalid argument, naming the flag; the factory's; Ops::MeasureSeconds'; cancelled, after
/// an interrupt.
Expected<LinearBenchReport> RunLinearBench(
    const OpsFactory& make_ops, const LinearBenchOptions& options,
    const std::function<Status(const LinearResult&)>& on_result);

}  // namespace decant
