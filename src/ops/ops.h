#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "ops/finite_scan.h"
#include "ops/kernel_overlap.h"
#include "ops/ops_clock.h"
#include "ops/step_batch.h"
#include "ops/step_part.h"
#include "tensor/tensor_view.h"

namespace decant {

/// What every layer of a decoder shares.
struct DecoderShape {
  int32_t layers = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;  ///< Divides heads; heads / kv_heads query heads share one K and V head.
  int32_t head_dim = 0;  ///< A multiple of 32.
  int32_t intermediate = 0;
  int32_t vocab = 0;
  int32_t max_positions = 0;
  float norm_epsilon = 0;
  /// Rotary embedding: radians that each pair of dims (i, i + head_dim / 2) turns by per position.
  std::vector<float> rope_frequencies{};  ///< [head_dim / 2]
  float rope_scale = 1;                   ///< Cosines and sines are multiplied by it (YaRN).

  int32_t group() const { return heads / kv_heads; }
};

/// A matrix of uniform random numbers in [-limit, limit): element i, counted row by row, depends on
/// `seed` and i only.
struct RandomRows {
  uint64_t seed = 0;
  float limit = 0;

  constexpr float Value(uint64_t i) const {
    const float unit = static_cast<float>(CounterRng(seed).Bits(i) >> 40) * 0x1p-24F;
    return (2 * unit - 1) * limit;
  }
};

/// Rows of a weight matrix [rows, cols] on demand. The functions may be called from many threads.
struct RowSource {
  int64_t rows = 0;
  int64_t cols = 0;
  std::function<void(int64_t first, int64_t count, float* out)>
      read{};  ///< fp32, out: [count, cols]

  /// Where the file has blocks of 32 columns that are scale * code + offset, the bits of a code (4:
  /// 0 to 15, 8: signed); else 0, and read_codes is empty. codes: [count, cols]; scales, offsets:
  /// fp16 bits, [count, cols / 32].
  int code_bits = 0;
  std::function<void(int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                     uint16_t* offsets)>
      read_codes{};

  /// Where the rows are random numbers, how a device can make them itself; `read` gives the same.
  std::optional<RandomRows> random{};
};

/// A matrix [rows, cols] of random numbers.
RowSource RandomRowSource(int64_t rows, int64_t cols, const RandomRows& random);

/// A weight matrix in a backend's own packing.
class LinearWeight {
 public:
  virtual ~LinearWeight() = default;
  virtual int64_t bytes() const = 0;  ///< Memory that one use reads.
};

/// The token embedding in a backend's own form.
class EmbeddingWeight {
 public:
  virtual ~EmbeddingWeight() = default;
};

/// A vector, such as a norm's gains or a bias, in a backend's own memory.
class VectorWeight {
 public:
  virtual ~VectorWeight() = default;
};

/// The weights of one decoder layer. Row order of q and k follows the half-split rotary embedding
/// (pairs i, i + head_dim / 2).
struct LayerWeights {
  std::unique_ptr<VectorWeight> attention_norm;  ///< [hidden]
  std::unique_ptr<LinearWeight>
      qkv;  ///< [(heads + 2 kv_heads) * head_dim, hidden]: q rows, k rows, v rows
  std::unique_ptr<VectorWeight> qkv_bias;  ///< the same rows, or null
  std::unique_ptr<VectorWeight> q_norm;    ///< [head_dim] RMSNorm of each query head, or null
  std::unique_ptr<VectorWeight> k_norm;    ///< [head_dim] likewise of each key head
  std::unique_ptr<LinearWeight> output;    ///< [hidden, heads * head_dim]
  std::unique_ptr<VectorWeight> mlp_norm;  ///< [hidden]
  std::unique_ptr<LinearWeight> gate_up;   ///< [2 * intermediate, hidden]
  std::unique_ptr<LinearWeight> down;      ///< [hidden, intermediate]
};

enum class DecodeKernel {
  kRows,   ///< one group per row and KV head walks the row's whole history by itself
  kSplit,  ///< slices of 256 positions from position 0, partials merged in order; independent of
           ///< the batch to the bit
  kFlash,  ///< FlashAttention 2.8.3's paged split-KV kernel: pages of a multiple of 256, CUDA only
};

/// Every decode kernel there is, on whatever device.
std::span<const DecodeKernel> AllDecodeKernels();

/// "rows", "split" or "flash"; nullopt for any other name.
std::optional<DecodeKernel> ParseDecodeKernel(std::string_view name);
std::string_view DecodeKernelName(DecodeKernel kernel);

/// Who computes linear layers.
enum class LinearLayers {
  kLibrary,    ///< cuBLASLt, where an output's bits may depend on how many tokens a step has; on
               ///< the CPU oneDNN, where they do not
  kInvariant,  ///< CUDA: kernels of ours: an output's bits depend on its own input row and the
               ///< weight only
  kInt8,       ///< CPU: kernels of ours: quantised weights times activations rounded to 8 bits
};

/// How many copies of a weight are held.
enum class WeightCopies {
  kBf16,  ///< one, in the type of the computation
  kKeep,  ///< and, where the file has 4-bit or 8-bit blocks, the quantised weights beside it
};

/// What one step's parts cost, for the floors printed beside the measured times.
struct StepCost {
  double bytes = 0;       ///< weights once, and the K and V that attention reads
  double operations = 0;  ///< multiply-adds count two
};

/// A token of a step whose activations are no finite numbers from some operation on.
struct ActivationFault {
  int32_t token = 0;  ///< In the batch.
  std::string
      found{};  ///< Layer, operation, how many values: "layer 3, attention: NaN in 2 of 64 values".
  std::string advice{};  ///< What a person can do.
};

/// The operations of a forward. One implementation a device; an implementation is used by one
/// thread at a time. Between BeginStep and the end of the step, `batch` and everything it refers to
/// must stay as it is.
class Ops {
 public:
  virtual ~Ops() = default;

  /// A line for people: processor, kernels, types, threads.
  virtual std::string Describe() const = 0;
  /// Whether something between the caller and the backend looks at a step's calls one by one: then
  /// each must be queued by itself.
  virtual bool watched() const { return false; }

  // Load. `norm` is that of the weight's input: an implementation may multiply the weight's columns
  // by its gains. The weight is then good for inputs of this norm only.
  virtual std::unique_ptr<LinearWeight> PackQkv(const VectorWeight& norm, const RowSource& q,
                                                const RowSource& k, const RowSource& v) = 0;
  virtual std::unique_ptr<LinearWeight> PackGateUp(const VectorWeight& norm, const RowSource& gate,
                                                   const RowSource& up) = 0;
  virtual std::unique_ptr<LinearWeight> PackProjection(const RowSource& weight) = 0;
  virtual std::unique_ptr<LinearWeight> PackHead(const VectorWeight& norm,
                                                 const RowSource& weight) = 0;
  virtual std::unique_ptr<EmbeddingWeight> PackEmbedding(const RowSource& weight) = 0;
  virtual std::unique_ptr<VectorWeight> PackVector(std::span<const float> values) = 0;
  /// To be called once all weights are packed: tells what failed meanwhile, such as memory that ran
  /// out, and readies what depends on the weights as a whole.
  virtual Status FinishLoading() = 0;

  /// Makes the K and V of `pages` pages of `page_size` slots in every layer.
  virtual Status AllocateCache(int32_t pages, int32_t page_size) = 0;
  /// Fills a page with NaN in every layer: gates do it to freed pages.
  virtual void PoisonPage(int32_t page) = 0;
  /// Fills the pages of every layer with numbers of `values`; pages may get the same ones. For
  /// benches.
  virtual void FillCache(const RandomRows& values) = 0;

  /// The type that K and V are kept in. fp32 values written to a page are rounded to it.
  virtual DType cache_type() const = 0;
  /// Writes a whole page of one layer, whatever its layout; keys, values: [page_size, kv_heads,
  /// head_dim]. NaN stays NaN. What is queued on the device runs first. For gates and tests.
  virtual void WritePage(int32_t layer, int32_t page, std::span<const float> keys,
                         std::span<const float> values) = 0;
  /// The same the other way, exactly.
  virtual void ReadPage(int32_t layer, int32_t page, std::span<float> keys,
                        std::span<float> values) const = 0;

  // Values in and out of views. On a device these copy, after all that is queued there, and wait.

  /// view = values [rows * cols], rounded to the view's type.
  virtual void Upload(std::span<const float> values, TensorView view) = 0;
  /// values = view, exactly.
  virtual void Download(TensorView view, std::span<float> values) const = 0;

  /// The kernel that decode tokens take.
  virtual DecodeKernel decode_kernel() const = 0;
  /// Makes the Attention calls that follow use another decode kernel, those of the step already
  /// begun included. kUnimplemented where this backend has no such kernel; kInvalidArgument where
  /// the kernel cannot read pages as they were allocated (their size, their layout): nothing
  /// changes then.
  virtual Status UseDecodeKernel(DecodeKernel kernel) = 0;
  /// What results call the prompt kernel that goes with the decode kernel in use.
  virtual std::string_view prompt_kernel() const { return "prompt"; }

  // A step. The views lie in the implementation's workspace and hold [batch.tokens(), …] until the
  // next BeginStep.
  virtual TensorView residual() = 0;    ///< [tokens, hidden], fp32
  virtual TensorView queries() = 0;     ///< [tokens, heads * head_dim]
  virtual TensorView attended() = 0;    ///< [tokens, heads * head_dim]
  virtual TensorView mlp_hidden() = 0;  ///< [tokens, intermediate]

  /// Takes the step's batch and plans attention over it, once for all layers.
  virtual void BeginStep(const StepBatch& batch) = 0;

  /// residual = the embedding of each token.
  virtual void Embed(const EmbeddingWeight& embedding, TensorView residual) = 0;

  /// RMSNorm, QKV (+ bias), RMSNorm of q and k heads where the layer has it, rotary embedding; K
  /// and V go to their slots, q to `queries`.
  virtual void NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                                 TensorView queries) = 0;

  /// Causal attention over each row's pages: prompt chunks by the prompt kernel, decode tokens by
  /// the decode kernel.
  virtual void Attention(int32_t layer, TensorView queries, TensorView attended) = 0;

  /// residual += input * weight^T.
  virtual void ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) = 0;

  /// out = SiLU(norm(residual) * gate^T) * (norm(residual) * up^T).
  virtual void NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) = 0;

  /// Logits [tokens.size(), vocab] in fp32 of some of the step's tokens, which are indices into the
  /// batch: final RMSNorm and head. May be called several times a step; the view holds until the
  /// next call.
  virtual TensorView NormHead(const VectorWeight& final_norm, const LinearWeight& head,
                              TensorView residual, std::span<const int32_t> tokens) = 0;

  /// What the step just begun has to read and compute, with the weights packed and the logits asked
  /// for so far.
  virtual StepCost Cost() const = 0;

  /// Operations a second that a large matrix product reaches here, measured now: the rate behind
  /// the floors.
  virtual double MeasureRate() = 0;
  /// Bytes a second that reading memory reaches here, measured now.
  virtual double MeasureBandwidth() = 0;
  /// Seconds that each of `repeats` runs of `calls` takes on the device, after one that is not
  /// counted. `calls` makes calls of this object that only queue work (the step has begun), and
  /// may be called any number of times, once at least. Where work runs as it is called, a clock
  /// measures that. `overlap` holds for the runs that are timed, where OverlapsKernels. Errors: the
  /// device's; failed precondition where it cannot record the calls.
  virtual Expected<std::vector<double>> MeasureSeconds(const std::function<void()>& calls,
                                                       int32_t repeats, KernelOverlap overlap);
  /// Whether this device can set a kernel up while the one before it still ends.
  virtual bool OverlapsKernels() const { return false; }

  // Activations that are no finite numbers.

  /// A scan for this device; it must not outlive the operations. Here: of views in host memory.
  virtual std::unique_ptr<FiniteScan> MakeFiniteScan() {
    return std::make_unique<HostFiniteScan>();
  }
  /// What was found since BeginStep, where something looks (CheckFiniteOps); those that came first
  /// come first. Waits for the device where something looks.
  virtual std::vector<ActivationFault> TakeFaults() { return {}; }

  // Measuring steps.

  /// A clock for this device; it must not outlive the operations. Here: of operations that are done
  /// when their call returns.
  virtual std::unique_ptr<OpsClock> MakeClock() { return std::make_unique<HostClock>(); }
  /// Has each following Attention call mark `clock` between the prompt kernel and the decode
  /// kernel; null: no more. False where they do not run one after the other: nothing is marked.
  virtual bool MarkAttention(OpsClock* /*clock*/) { return false; }
  /// The runner says that all it has queued since the call before is `part`, which is no operation
  /// of this interface: sampling, say. For who times steps.
  virtual void EndPart(StepPart /*part*/) {}

  /// Runs body(item) for every item in [0, items) on the implementation's threads.
  virtual void ParallelFor(int64_t items, const std::function<void(int64_t)>& body) = 0;
};

}  // namespace decant
