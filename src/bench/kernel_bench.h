#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/attention_batch.h"
#include "bench/machine_probe.h"
#include "bench/overlap_choice.h"
#include "ops/ops_factory.h"

namespace decant {

/// Whose attention is timed. The defaults are Qwen2.5-1.5B's.
struct KernelShape {
  int32_t layers = 28;  ///< Each has K and V of its own.
  int32_t heads = 12;
  int32_t kv_heads = 2;
  int32_t head_dim = 128;
};

/// Refuses heads that do not divide, groups over 16 and head dims of no multiple of 32, by flag.
Status ValidateKernelShape(const KernelShape& shape);

/// One step: decode tokens only, or one prompt chunk.
struct KernelCase {
  std::string lengths{};  ///< What results call it: "4096", "mixed seed 0", "512 after 3584".
  std::vector<CaseRow> rows{};

  bool prompt() const { return rows.front().query_len > 1; }
  int64_t tokens() const;  ///< Context lengths of all rows together.
};

/// `batch` context lengths as Python draws them:
///   r = random.Random(seed)
///   [r.choice([16, 64, 256, 1024, 4096]) + r.randint(0, 160) for _ in range(batch)]
/// Published times of other kernels are of these.
std::vector<int32_t> MixedLengths(uint64_t seed, int32_t batch);

KernelCase UniformCase(int32_t length, int32_t batch);
KernelCase MixedCase(uint64_t seed, int32_t batch);
/// The next `chunk` >= 2 positions of a prompt of which `history` are computed.
KernelCase ChunkCase(int32_t chunk, int32_t history);

/// What attention of a step takes in one layer.
struct LayerTime {
  double median = 0;  ///< seconds, of the repeats' means over the layers
  double least = 0;
  double most = 0;
  double bytes = 0;       ///< K and V read, each position once a row and KV head
  double operations = 0;  ///< a multiply-add counts two

  double bytes_per_second() const { return bytes / median; }
};

/// Ok where a cache can have such pages and, with `kernel`, where that decode kernel reads them.
/// Otherwise the refusal: of the pool, the backend or the kernel.
Status TryPageSize(const OpsFactory& make_ops, const KernelShape& shape,
                   std::optional<DecodeKernel> kernel, int32_t page_size);

/// Times attention over a cache of random K and V, whose pages go to rows in random order.
class AttentionTimer {
 public:
  /// Makes operations and a cache that the largest of `cases` fits into. Errors: the factory's;
  /// resource exhausted: the cache would take over `max_cache_bytes` (0: no limit).
  static Expected<AttentionTimer> Make(const OpsFactory& make_ops, const KernelShape& shape,
                                       int32_t page_size, std::span<const KernelCase> cases,
                                       int64_t max_cache_bytes,
                                       PromptKernel prompt_kernel = PromptKernel::kOwn);

  Ops& ops() { return *ops_; }

  /// Runs all layers one after another, `repeats` times after one that does not count, with the
  /// decode kernel in use. Errors: Ops::MeasureSeconds'; cancelled, after an interrupt.
  Expected<LayerTime> Measure(const KernelCase& timed, int32_t repeats,
                              TimedOverlap overlap = std::nullopt);

 private:
  AttentionTimer(std::unique_ptr<Ops> ops, const KernelShape& shape, int32_t page_size,
                 int32_t pages)
      : ops_(std::move(ops)), shape_(shape), page_size_(page_size), pages_(pages) {}

  std::unique_ptr<Ops> ops_;
  KernelShape shape_;
  int32_t page_size_;
  int32_t pages_;
};

/// A decode kernel and the pages it is timed with.
struct KernelPages {
  DecodeKernel kernel = DecodeKernel::kRows;
  int32_t page_size = 0;
};

struct KernelBenchOptions {
  KernelShape shape{};
  std::vector<KernelPages> kernels{};
  bool all_must_run = false;  ///< Whether a kernel that refuses is an error; otherwise a note.
  std::vector<KernelCase> cases{};
  int32_t repeats = 10;
  std::vector<KernelOverlap> overlaps{};  ///< As ChooseOverlaps takes them.
  int64_t max_cache_bytes = 0;            ///< 0: no limit.
};

/// One case with one kernel.
struct KernelResult {
  std::string kernel{};  ///< "rows", "split", "flash", "prompt" or "ranged".
  TimedOverlap overlap{};
  DType dtype = DType::kF32;
  int32_t page_size = 0;
  int32_t batch = 0;
  std::string lengths{};
  int64_t tokens = 0;
  LayerTime time{};
  /// The least time, seconds: the bytes at the measured bandwidth; of the prompt kernel the longer
  /// of that and its operations at the measured rate.
  double floor = 0;

  double times_floor() const { return time.median / floor; }
};

struct KernelBenchReport {
  std::vector<KernelResult> results{};
  std::vector<std::string> notes{};  ///< Which kernels did not run, and why.
  MachineRates rates{};              ///< Operations: 0 where no prompt chunk was timed.
  std::string backend{};
};

/// Times every case with every kernel; prompt chunks with each prompt kernel that goes with one of
/// them, and with FlashAttention's where its decode kernel is one of them. Kernels with the same
/// pages take turns on the same cache. `on_result` is told of each result at once; its error ends
/// the run. Errors: AttentionTimer's; ChooseOverlaps'; no kernel that runs.
Expected<KernelBenchReport> RunKernelBench(
    const OpsFactory& make_ops, const KernelBenchOptions& options,
    const std::function<Status(const KernelResult&)>& on_result);

}  // namespace decant
