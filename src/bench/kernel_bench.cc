#include "bench/kernel_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/interrupt.h"
#include "base/progress.h"
#include "bench/python_random.h"
#include "bench/quantile.h"
#include "cache/page_pool.h"

namespace decant {
namespace {

constexpr uint64_t kTableSeed = 1;
constexpr RandomRows kCacheValues{.seed = 2, .limit = 1};
constexpr RandomRows kQueryValues{.seed = 3, .limit = 1};

/// Operations on `layers` for steps of so many tokens and rows, over contexts of `longest`.
OpsSpec SpecOf(const KernelShape& shape, int32_t layers, int32_t tokens, int32_t rows,
               int32_t longest) {
  return {.shape = AttentionOnlyShape(layers, shape.heads, shape.kv_heads, shape.head_dim, longest),
          .max_tokens = tokens,
          .max_rows = rows,
          .max_samples = 1};
}

int64_t CacheBytes(const KernelShape& shape, int64_t slots, DType type) {
  return 2 * slots * shape.layers * shape.kv_heads * shape.head_dim *
         static_cast<int64_t>(DTypeSize(type));
}

class KernelBench {
 public:
  KernelBench(const OpsFactory& make_ops, const KernelBenchOptions& options,
              const std::function<Status(const KernelResult&)>& on_result)
      : make_ops_(make_ops),
        options_(options),
        on_result_(on_result),
        prompts_(std::ranges::any_of(options.cases, &KernelCase::prompt)) {}

  Expected<KernelBenchReport> Run() {
    DECANT_RETURN_IF_ERROR(ChooseKernels());
    int64_t timings = 0;
    for (const auto& [page_size, kernels] : usable_) {
      timings += std::ssize(options_.cases) * std::ssize(kernels);
    }
    Progress progress("bench kernel", timings, "timings");
    for (const auto& [page_size, kernels] : usable_) {
      DECANT_RETURN_IF_ERROR(RunPageSize(page_size, kernels, progress));
      if (prompts_ && std::ranges::find(kernels, DecodeKernel::kFlash) != kernels.end()) {
        DECANT_RETURN_IF_ERROR(RunFlashPrompts(page_size));
      }
    }
    return std::move(report_);
  }

 private:
  using Kernels = std::vector<DecodeKernel>;

  Status ChooseKernels() {
    Status refused;
    for (const auto& [kernel, page_size] : options_.kernels) {
      Status status = TryPageSize(make_ops_, options_.shape, kernel, page_size);
      if (status.ok()) {
        usable_[page_size].push_back(kernel);
      } else if (options_.all_must_run) {
        return status;
      } else {
        report_.notes.push_back(status.message());
        refused = status;
      }
    }
    return usable_.empty() ? refused : Status();
  }

  Status RunPageSize(int32_t page_size, const Kernels& kernels, Progress& progress) {
    DECANT_ASSIGN_OR_RETURN(AttentionTimer timer,
                            AttentionTimer::Make(make_ops_, options_.shape, page_size,
                                                 options_.cases, options_.max_cache_bytes));
    DECANT_RETURN_IF_ERROR(MeasureRates(timer.ops()));
    DECANT_ASSIGN_OR_RETURN(const std::vector<TimedOverlap> overlaps,
                            ChooseOverlaps(timer.ops(), options_.overlaps));
    for (const KernelCase& timed : options_.cases) {
      std::set<std::string> done;  // decode kernels may share a prompt kernel
      for (const DecodeKernel kernel : kernels) {
        DECANT_RETURN_IF_ERROR(timer.ops().UseDecodeKernel(kernel));
        if (done.insert(KernelName(timer.ops(), timed)).second) {
          for (const TimedOverlap overlap : overlaps) {
            DECANT_RETURN_IF_ERROR(RunCase(timer, timed, page_size, overlap));
          }
        }
        progress.Advance(1);
      }
    }
    return Status();
  }

  /// A prompt kernel that goes with no decode kernel is chosen when operations are made.
  Status RunFlashPrompts(int32_t page_size) {
    std::vector<KernelCase> prompts;
    std::ranges::copy_if(options_.cases, std::back_inserter(prompts), &KernelCase::prompt);
    DECANT_ASSIGN_OR_RETURN(AttentionTimer timer,
                            AttentionTimer::Make(make_ops_, options_.shape, page_size, prompts,
                                                 options_.max_cache_bytes, PromptKernel::kFlash));
    DECANT_ASSIGN_OR_RETURN(const std::vector<TimedOverlap> overlaps,
                            ChooseOverlaps(timer.ops(), options_.overlaps));
    for (const KernelCase& timed : prompts) {
      for (const TimedOverlap overlap : overlaps) {
        DECANT_RETURN_IF_ERROR(RunCase(timer, timed, page_size, overlap));
      }
    }
    return Status();
  }

  Status MeasureRates(Ops& ops) {
    MachineRates& rates = report_.rates;
    if (rates.bytes_per_second > 0) return Status();
    report_.backend = ops.Describe();
    rates.bytes_per_second = ops.MeasureBandwidth();
    if (prompts_) rates.operations_per_second = ops.MeasureRate();
    if (rates.bytes_per_second > 0 && (!prompts_ || rates.operations_per_second > 0)) {
      return Status();
    }
    return Error(StatusCode::kInternal, "this device's bandwidth or rate could not be measured");
  }

  static std::string KernelName(const Ops& ops, const KernelCase& timed) {
    return std::string(timed.prompt() ? ops.prompt_kernel()
                                      : DecodeKernelName(ops.decode_kernel()));
  }

  Status RunCase(AttentionTimer& timer, const KernelCase& timed, int32_t page_size,
                 TimedOverlap overlap) {
    DECANT_ASSIGN_OR_RETURN(const LayerTime time, timer.Measure(timed, options_.repeats, overlap));
    const MachineRates& rates = report_.rates;
    report_.results.push_back({.kernel = KernelName(timer.ops(), timed),
                               .overlap = overlap,
                               .dtype = timer.ops().cache_type(),
                               .page_size = page_size,
                               .batch = static_cast<int32_t>(timed.rows.size()),
                               .lengths = timed.lengths,
                               .tokens = timed.tokens(),
                               .time = time,
                               .floor = timed.prompt()
                                            ? rates.FloorSeconds(time.bytes, time.operations)
                                            : time.bytes / rates.bytes_per_second});
    return on_result_(report_.results.back());
  }

  const OpsFactory& make_ops_;
  const KernelBenchOptions& options_;
  const std::function<Status(const KernelResult&)>& on_result_;
  const bool prompts_;
  std::map<int32_t, Kernels> usable_;  ///< By page size.
  KernelBenchReport report_;
};

}  // namespace

Status ValidateKernelShape(const KernelShape& shape) {
  constexpr int32_t kMaxGroup = 16;
  if (shape.heads % shape.kv_heads != 0 || shape.heads / shape.kv_heads > kMaxGroup) {
    return InvalidArgument(
        "--heads {} and --kv-heads {}: allowed are 1 to {} query heads for each KV head",
        shape.heads, shape.kv_heads, kMaxGroup);
  }
  if (shape.head_dim % 32 != 0) {
    return InvalidArgument("--head-dim is {}; allowed: multiples of 32", shape.head_dim);
  }
  return Status();
}

int64_t KernelCase::tokens() const {
  int64_t tokens = 0;
  for (const CaseRow& row : rows) tokens += row.context_len;
  return tokens;
}

std::vector<int32_t> MixedLengths(uint64_t seed, int32_t batch) {
  constexpr std::array<int32_t, 5> kLengths = {16, 64, 256, 1024, 4096};
  constexpr int32_t kMostGenerated = 160;
  PythonRandom random(seed);
  std::vector<int32_t> lengths;
  for (int32_t i = 0; i < batch; ++i) {
    const int32_t length = random.Choice(kLengths);
    lengths.push_back(length + random.Int(0, kMostGenerated));
  }
  return lengths;
}

KernelCase UniformCase(int32_t length, int32_t batch) {
  return {.lengths = std::to_string(length),
          .rows = std::vector<CaseRow>(batch, {.query_len = 1, .context_len = length})};
}

KernelCase MixedCase(uint64_t seed, int32_t batch) {
  KernelCase timed{.lengths = fmt::format("mixed seed {}", seed), .rows = {}};
  for (const int32_t length : MixedLengths(seed, batch)) {
    timed.rows.push_back({.query_len = 1, .context_len = length});
  }
  return timed;
}

KernelCase ChunkCase(int32_t chunk, int32_t history) {
  return {.lengths = fmt::format("{} after {}", chunk, history),
          .rows = {{.query_len = chunk, .context_len = history + chunk}}};
}

Status TryPageSize(const OpsFactory& make_ops, const KernelShape& shape,
                   std::optional<DecodeKernel> kernel, int32_t page_size) {
  DECANT_RETURN_IF_ERROR(ValidatePageSize(page_size));
  DECANT_ASSIGN_OR_RETURN(const std::unique_ptr<Ops> ops,
                          make_ops(SpecOf(shape, 1, 1, 1, page_size)));
  DECANT_RETURN_IF_ERROR(ops->AllocateCache(1, page_size));
  return kernel ? ops->UseDecodeKernel(*kernel) : Status();
}

Expected<AttentionTimer> AttentionTimer::Make(const OpsFactory& make_ops, const KernelShape& shape,
                                              int32_t page_size, std::span<const KernelCase> cases,
                                              int64_t max_cache_bytes, PromptKernel prompt_kernel) {
  int32_t tokens = 1;
  int32_t rows = 1;
  int32_t longest = 1;
  int32_t pages = 1;
  for (const KernelCase& timed : cases) {
    int32_t queries = 0;
    for (const CaseRow& row : timed.rows) {
      queries += row.query_len;
      longest = std::max(longest, row.context_len);
    }
    tokens = std::max(tokens, queries);
    rows = std::max(rows, static_cast<int32_t>(timed.rows.size()));
    pages = std::max(pages, PagesOf(timed.rows, page_size));
  }
  OpsSpec spec = SpecOf(shape, shape.layers, tokens, rows, longest);
  spec.prompt_kernel = prompt_kernel;
  DECANT_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, make_ops(spec));
  constexpr double kGib = 1 << 30;
  const int64_t bytes = CacheBytes(shape, int64_t{pages} * page_size, ops->cache_type());
  if (max_cache_bytes > 0 && bytes > max_cache_bytes) {
    return Error(StatusCode::kResourceExhausted,
                 "K and V would take {:.2f} GiB of the {:.2f} GiB that they may have: fewer layers "
                 "or rows, shorter contexts or smaller pages would fit",
                 static_cast<double>(bytes) / kGib, static_cast<double>(max_cache_bytes) / kGib);
  }
  DECANT_RETURN_IF_ERROR(ops->AllocateCache(pages, page_size));
  ops->FillCache(kCacheValues);
  return AttentionTimer(std::move(ops), shape, page_size, pages);
}

Expected<LayerTime> AttentionTimer::Measure(const KernelCase& timed, int32_t repeats,
                                            TimedOverlap overlap) {
  const AttentionBatch batch(timed.rows,
                             ShuffledTables(timed.rows, page_size_, pages_, kTableSeed));
  ops_->BeginStep(batch.step());
  std::vector<float> queries(static_cast<size_t>(batch.step().tokens()) * shape_.heads *
                             shape_.head_dim);
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = kQueryValues.Value(i);
  ops_->Upload(queries, ops_->queries());
  const auto all_layers = [&] {
    for (int32_t layer = 0; layer < shape_.layers && !InterruptRequested(); ++layer) {
      ops_->Attention(layer, ops_->queries(), ops_->attended());
    }
  };
  DECANT_ASSIGN_OR_RETURN(
      std::vector<double> seconds,
      ops_->MeasureSeconds(all_layers, repeats, overlap.value_or(KernelOverlap::kAllowed)));
  if (InterruptRequested()) return Status(StatusCode::kCancelled, "interrupted");
  for (double& run : seconds) run /= shape_.layers;
  const AttentionWork work = CountAttention(batch.step().rows);
  return LayerTime{.median = Median(seconds),
                   .least = std::ranges::min(seconds),
                   .most = std::ranges::max(seconds),
                   .bytes = 2 * work.keys * shape_.kv_heads * shape_.head_dim *
                            static_cast<double>(DTypeSize(ops_->cache_type())),
                   .operations = 4 * work.products * shape_.heads * shape_.head_dim};
}

Expected<KernelBenchReport> RunKernelBench(
    const OpsFactory& make_ops, const KernelBenchOptions& options,
    const std::function<Status(const KernelResult&)>& on_result) {
  return KernelBench(make_ops, options, on_result).Run();
}

}  // namespace decant
