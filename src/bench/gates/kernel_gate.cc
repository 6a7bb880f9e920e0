#include "bench/gates/kernel_gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "base/interrupt.h"
#include "base/narrow.h"
#include "base/random.h"
#include "bench/gates/attention_case.h"
#include "bench/gates/kernel_invariance.h"
#include "bench/gates/precision.h"
#include "bench/text_table.h"
#include "cache/page_pool.h"

namespace decant {
namespace {

/// Queries of one step; a longer list of prompt rows takes several.
constexpr int32_t kMaxTokens = 1024;
/// Chunks of long histories are short, chunks of short ones long: their product is the work.
constexpr int32_t kWholePrompt = 513;
constexpr int32_t kLongPrompt = 2048;
constexpr int32_t kChunk = 33;
constexpr int32_t kShortChunk = 5;

/// The rows of one step.
using Rows = std::vector<CaseRow>;

std::vector<Rows> DecodeSteps(const KernelGateOptions& options) {
  std::vector<Rows> steps;
  steps.reserve(options.lengths.size() + options.batches.size());
  for (const int32_t length : options.lengths) steps.push_back({{.context_len = length}});
  for (const int32_t batch : options.batches) {
    const CounterRng rng(CounterRng(options.seed).Bits(static_cast<uint64_t>(batch)));
    Rows rows;
    for (int32_t i = 0; i < batch; ++i) {
      rows.push_back({.context_len = options.lengths[rng.Below(i, options.lengths.size())]});
    }
    steps.push_back(std::move(rows));
  }
  return steps;
}

/// Whole prompts and last chunks of all lengths, decode tokens between them.
std::vector<Rows> PromptSteps(const KernelGateOptions& options) {
  std::vector<Rows> steps(1);
  int32_t tokens = 0;
  const auto add = [&](int32_t query_len, int32_t context_len) {
    if (tokens + query_len + 1 > kMaxTokens) {
      steps.emplace_back();
      tokens = 0;
    }
    steps.back().push_back({.query_len = query_len, .context_len = context_len});
    tokens += query_len;
    if (steps.back().size() % 4 == 1) {
      steps.back().push_back({.context_len = context_len});
      ++tokens;
    }
  };
  for (const int32_t length : options.lengths) {
    if (length < 2) continue;
    add(std::min(length, length > kLongPrompt ? kShortChunk : kChunk), length);
    if (length > kChunk && length <= kWholePrompt) add(length, length);
  }
  if (steps.back().empty()) steps.pop_back();
  return steps;
}

/// A line of the table.
struct Line {
  int64_t rows = 0;
  double error = 0;
  double ulps = 0;
  double ratio = 0;  ///< Largest error / rounding's, over rows where rounding lost something.
  int64_t failures = 0;
};

class KernelGate {
 public:
  KernelGate(const OpsFactory& make_ops, const KernelGateOptions& options)
      : make_ops_(make_ops), options_(options) {
    kernels_ = options.kernels;
    if (kernels_.empty()) kernels_.assign(AllDecodeKernels().begin(), AllDecodeKernels().end());
  }

  Status RunShape(int32_t head_dim, int32_t group, int32_t page_size) {
    const int32_t longest = *std::ranges::max_element(options_.lengths);
    // The poisoned entries past a row's pages fit into a table too.
    const DecoderShape shape =
        AttentionOnlyShape(1, group * options_.kv_heads, options_.kv_heads, head_dim,
                           (CeilDiv(longest, page_size) + 2) * page_size);

    const std::vector<Rows> decode = DecodeSteps(options_);
    const std::vector<Rows> prompts = PromptSteps(options_);
    int32_t pages = 1;
    size_t most_rows = 1;
    for (const auto* steps : {&decode, &prompts}) {
      for (const Rows& rows : *steps) {
        pages = std::max(pages, PagesOf(rows, page_size) + 1);
        most_rows = std::max(most_rows, rows.size());
      }
    }
    const auto max_rows = static_cast<int32_t>(most_rows);
    DECANT_ASSIGN_OR_RETURN(const std::unique_ptr<Ops> ops,
                            make_ops_({.shape = shape,
                                       .max_tokens = std::max(kMaxTokens, max_rows),
                                       .max_rows = max_rows,
                                       .max_samples = 1}));
    backend_ = ops->Describe();
    storage_ = ops->cache_type();
    DECANT_ASSIGN_OR_RETURN(
        const PoisonedPages cache,
        PoisonedPages::Allocate(
            *ops, {.page_size = page_size, .kv_heads = shape.kv_heads, .head_dim = head_dim},
            pages));

    std::vector<DecodeKernel> usable;
    for (const DecodeKernel kernel : kernels_) {
      const Status status = ops->UseDecodeKernel(kernel);
      if (status.ok()) {
        usable.push_back(kernel);
      } else {
        refused_.insert(status.code() == StatusCode::kUnimplemented
                            ? status.message()
                            : fmt::format("pages of {}: {}", page_size, status.message()));
      }
    }
    if (usable.empty()) return Status();
    used_.insert(usable.begin(), usable.end());
    const std::string context = fmt::format("head dim {}, group {}", head_dim, group);
    for (const auto* steps : {&decode, &prompts}) {
      for (const Rows& rows : *steps) {
        if (InterruptRequested()) return Error(StatusCode::kCancelled, "interrupted");
        RunCase(*ops, shape, cache, rows, usable, context);
      }
    }
    return Status();
  }

  /// Bits of one shape's outputs, where the kernels promise that they stay.
  Status RunBits(int32_t head_dim, int32_t group) {
    if (!used_.contains(DecodeKernel::kSplit) || options_.bit_page_sizes.empty()) return Status();
    DECANT_ASSIGN_OR_RETURN(InvarianceResult result,
                            CompareArrangements(make_ops_, DecodeKernel::kSplit,
                                                {.head_dim = head_dim,
                                                 .group = group,
                                                 .kv_heads = options_.kv_heads,
                                                 .lengths = options_.lengths,
                                                 .page_sizes = options_.bit_page_sizes,
                                                 .chunks = options_.bit_chunks,
                                                 .seed = options_.seed}));
    bits_compared_ += result.compared;
    bits_differing_ += result.differing;
    failures_.insert(failures_.end(), result.failures.begin(), result.failures.end());
    return Status();
  }

  GateReport Finish() {
    GateReport report;
    report.gate = "kernel";
    for (const DecodeKernel kernel : kernels_) {
      if (used_.contains(kernel)) continue;
      // A kernel that was asked for by name must have run; of all there are, one at least.
      if (!options_.kernels.empty() || used_.empty()) {
        failures_.push_back(fmt::format("decode kernel {} did not run", DecodeKernelName(kernel)));
      }
    }
    TextTable table({"kernel", "head dim", "page", "rows", "largest difference", "ulps",
                     "error / rounding's", "failures"});
    JsonArray lines;
    for (const auto& [key, line] : lines_) {
      const auto& [name, head_dim, page_size] = key;
      table.AddRow({name, fmt::format("{}", head_dim), fmt::format("{}", page_size),
                    fmt::format("{}", line.rows), fmt::format("{:.2e}", line.error),
                    fmt::format("{:.2f}", line.ulps), fmt::format("{:.2f}", line.ratio),
                    fmt::format("{}", line.failures)});
      lines.Add(JsonObject()
                    .Add("kernel", name)
                    .Add("head_dim", head_dim)
                    .Add("page_size", page_size)
                    .Add("rows", line.rows)
                    .Add("largest_difference", line.error)
                    .Add("largest_ulps", line.ulps)
                    .Add("error_over_rounding", line.ratio)
                    .Add("failures", line.failures));
      if (!(line.error < report.largest_difference)) {
        report.largest_difference = line.error;
        report.largest_ulps = line.ulps;
      }
    }
    report.table = fmt::format("{}; outputs against plain attention, storage {}\n{}", backend_,
                               DTypeName(storage_), table.ToString());
    if (bits_compared_ > 0) {
      report.table += fmt::format(
          "bits: {} outputs of split and of the prompt kernel beside it, alone, in batches, in "
          "chunks and at other page sizes; {} differ\n",
          bits_compared_, bits_differing_);
    }
    report.compared.Add("backend", backend_)
        .Add("storage", DTypeName(storage_))
        .Add("head_dims", Numbers(options_.head_dims))
        .Add("groups", Numbers(options_.groups))
        .Add("page_sizes", Numbers(options_.page_sizes))
        .Add("lengths", Numbers(options_.lengths))
        .Add("batches", Numbers(options_.batches))
        .Add("kernels", lines)
        .Add("bit_page_sizes", Numbers(options_.bit_page_sizes))
        .Add("bit_chunks", Numbers(options_.bit_chunks))
        .Add("bits_compared", bits_compared_)
        .Add("bits_differing", bits_differing_);
    report.notes.assign(refused_.begin(), refused_.end());
    report.failures = std::move(failures_);
    return report;
  }

 private:
  static JsonArray Numbers(const std::vector<int32_t>& values) {
    JsonArray array;
    for (const int32_t value : values) array.Add(value);
    return array;
  }

  void RunCase(Ops& ops, const DecoderShape& shape, const PoisonedPages& cache, const Rows& rows,
               const std::vector<DecodeKernel>& kernels, const std::string& context) {
    AttentionCase attention(ops, shape, cache, rows, CounterRng(options_.seed).Bits(case_++));
    for (const DecodeKernel kernel : kernels) {
      const Status status = ops.UseDecodeKernel(kernel);
      if (!status.ok()) {
        failures_.push_back(status.message());
        continue;
      }
      const std::vector<RowError> errors = attention.Judge();
      for (size_t r = 0; r < errors.size(); ++r) {
        const CaseRow& row = attention.rows()[r];
        const bool decode = row.query_len == 1;
        // Prompt rows do not depend on the decode kernel.
        if (!decode && kernel != kernels.front()) continue;
        const std::string name(decode ? DecodeKernelName(kernel) : "prompt");
        Count(name, shape.head_dim, cache.shape().page_size, row, errors[r], context);
      }
    }
  }

  void Count(const std::string& name, int32_t head_dim, int32_t page_size, const CaseRow& row,
             const RowError& error, const std::string& context) {
    Line& line = lines_[{name, head_dim, page_size}];
    ++line.rows;
    if (!(error.error < line.error)) {
      line.error = error.error;
      line.ulps = error.error_ulps;
    }
    if (error.rounding > 0) line.ratio = std::max(line.ratio, error.error / error.rounding);
    if (error.passes()) return;
    ++line.failures;
    failures_.push_back(fmt::format(
        "{}, {}, page {}: {} of {} positions off by {:.3e}; rounding is off by {:.3e}, {:.3e} "
        "may be",
        name, context, page_size, row.query_len, row.context_len, error.error, error.rounding,
        error.allowed));
  }

  const OpsFactory& make_ops_;
  const KernelGateOptions& options_;
  std::vector<DecodeKernel> kernels_;
  uint64_t case_ = 1;
  std::string backend_;
  DType storage_ = DType::kF32;
  std::set<DecodeKernel> used_;
  std::set<std::string> refused_;
  std::map<std::tuple<std::string, int32_t, int32_t>, Line> lines_;
  int64_t bits_compared_ = 0;
  int64_t bits_differing_ = 0;
  std::vector<std::string> failures_;
};

Status CheckList(std::string_view name, const std::vector<int32_t>& values, int32_t least,
                 int32_t most) {
  if (values.empty()) return InvalidArgument("{} has no value", name);
  for (const int32_t value : values) {
    if (value < least || value > most) {
      return InvalidArgument("{} has {}; allowed: {} to {}", name, value, least, most);
    }
  }
  return Status();
}

}  // namespace

KernelGateOptions KernelGateOptions::Full() {
  return {.head_dims = {64, 128},
          .groups = {1, 2, 3, 4, 5, 6, 7, 8, 16},
          .page_sizes = {64, 256},
          .lengths = {1,   2,    63,   64,   65,   127,  128,  129,  255,  256,  257,  511,  512,
                      513, 1023, 1024, 1025, 4090, 4091, 4092, 4093, 4094, 4095, 4096, 4097, 8000},
          .batches = {1, 8, 32, 64},
          .bit_page_sizes = {64, 16, 48, 256},
          .bit_chunks = {64, 100, 512}};
}

KernelGateOptions KernelGateOptions::Quick() {
  return {.head_dims = {64, 128},
          .groups = {1, 6},
          .page_sizes = {64, 256},
          .lengths = {1, 2, 63, 64, 65, 127, 129, 255, 256, 257},
          .batches = {1, 8},
          .bit_page_sizes = {64, 16},
          .bit_chunks = {64, 100}};
}

Status ValidateKernelGate(const KernelGateOptions& options) {
  constexpr int32_t kMaxLength = 1 << 17;
  DECANT_RETURN_IF_ERROR(CheckList("--head-dims", options.head_dims, 32, 256));
  for (const int32_t head_dim : options.head_dims) {
    if (head_dim % 32 != 0) {
      return InvalidArgument("--head-dims has {}; allowed: multiples of 32", head_dim);
    }
  }
  DECANT_RETURN_IF_ERROR(CheckList("--groups", options.groups, 1, 16));
  DECANT_RETURN_IF_ERROR(CheckList("--page-sizes", options.page_sizes, 1, kMaxPageSize));
  DECANT_RETURN_IF_ERROR(CheckList("--lengths", options.lengths, 1, kMaxLength));
  return CheckList("--batches", options.batches, 1, kMaxTokens);
}

Expected<GateReport> RunKernelGate(const OpsFactory& make_ops, const KernelGateOptions& options,
                                   const ShapeProgress& progress) {
  DECANT_RETURN_IF_ERROR(ValidateKernelGate(options));
  KernelGate gate(make_ops, options);
  const auto shapes = static_cast<int32_t>(options.head_dims.size() * options.groups.size() *
                                           options.page_sizes.size());
  int32_t done = 0;
  for (const int32_t head_dim : options.head_dims) {
    for (const int32_t group : options.groups) {
      for (const int32_t page_size : options.page_sizes) {
        if (progress) progress(done++, shapes);
        DECANT_RETURN_IF_ERROR(gate.RunShape(head_dim, group, page_size));
      }
      DECANT_RETURN_IF_ERROR(gate.RunBits(head_dim, group));
    }
  }
  return gate.Finish();
}

}  // namespace decant
