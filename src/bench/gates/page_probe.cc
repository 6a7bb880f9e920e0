#include "bench/gates/page_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "base/interrupt.h"
#include "base/narrow.h"
#include "base/progress.h"
#include "bench/gates/attention_case.h"

namespace decant {
namespace {

using Rows = std::vector<CaseRow>;

/// What is probed: a decode kernel or, empty, the prompt kernel.
using Probed = std::optional<DecodeKernel>;

std::string NameOf(Probed kernel) {
  return std::string(kernel ? DecodeKernelName(*kernel) : "prompt");
}

/// Around the end of the first page and of the third, around what kernels cut histories at, and
/// between.
std::set<int32_t> ContextLengths(int32_t page_size) {
  constexpr int32_t kLongest = 4097;
  std::set<int32_t> lengths = {1, 2, 255, 256, 257, 517, 1025};
  lengths.insert({page_size, page_size + 1, std::max(1, page_size - 1)});
  for (const int32_t length : {3 * page_size - 1, 3 * page_size, 3 * page_size + 1}) {
    if (length <= kLongest) lengths.insert(length);
  }
  return lengths;
}

Rows DecodeRows(int32_t page_size) {
  Rows rows;
  for (const int32_t length : ContextLengths(page_size)) rows.push_back({.context_len = length});
  return rows;
}

/// Last chunks, short ones of long histories, and a whole prompt.
Rows PromptRows(int32_t page_size) {
  constexpr int32_t kLong = 2048;
  Rows rows = {{.query_len = 129, .context_len = 129}};
  for (const int32_t length : ContextLengths(page_size)) {
    if (length < 2) continue;
    rows.push_back({.query_len = std::min(length, length > kLong ? 5 : 33), .context_len = length});
  }
  return rows;
}

int32_t TokensOf(const Rows& rows) {
  int32_t tokens = 0;
  for (const CaseRow& row : rows) tokens += row.query_len;
  return tokens;
}

/// Adds what a step's errors say.
void JudgeRows(std::span<const CaseRow> rows, std::span<const RowError> errors,
               PageProbeResult& result) {
  result.largest_difference = result.largest_ulps = 0;
  int32_t wrong = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    result.largest_difference = std::max(*result.largest_difference, errors[r].error);
    result.largest_ulps = std::max(*result.largest_ulps, errors[r].error_ulps);
    if (errors[r].passes() || wrong++ > 0) continue;
    result.outcome = PageOutcome::kWrong;
    result.message =
        fmt::format("the first of them {} of {} positions, off by {:.3e} where {:.3e} may be",
                    rows[r].query_len, rows[r].context_len, errors[r].error, errors[r].allowed);
  }
  if (wrong == 0) return;
  result.message = fmt::format("{} of {} rows are off, {}", wrong, rows.size(), result.message);
}

class PageProbe {
 public:
  PageProbe(const OpsFactory& make_ops, const PageProbeOptions& options,
            const std::function<Status(const PageProbeResult&)>& on_result)
      : make_ops_(make_ops), options_(options), on_result_(on_result) {
    kernels_.assign(options.kernels.begin(), options.kernels.end());
    kernels_.emplace_back(std::nullopt);
  }

  Expected<std::vector<PageProbeResult>> Run() {
    // A shape that the device does not take at all is no matter of pages.
    const KernelShape& shape = options_.shape;
    DECANT_RETURN_IF_ERROR(
        make_ops_({.shape = AttentionOnlyShape(1, shape.heads, shape.kv_heads, shape.head_dim, 1),
                   .max_tokens = 1,
                   .max_rows = 1,
                   .max_samples = 1})
            .status());
    Progress progress("bench page-probe", static_cast<int64_t>(options_.page_sizes.size()),
                      "page sizes");
    for (const int32_t page_size : options_.page_sizes) {
      DECANT_RETURN_IF_ERROR(RunPageSize(page_size));
      progress.Advance(1);
    }
    return std::move(results_);
  }

 private:
  Status RunPageSize(int32_t page_size) {
    std::vector<PageProbeResult> tried;
    for (const Probed kernel : kernels_) {
      PageProbeResult& result =
          tried.emplace_back(PageProbeResult{.kernel = NameOf(kernel), .page_size = page_size});
      const Status status = TryPageSize(make_ops_, options_.shape, kernel, page_size);
      if (status.ok()) continue;
      result.outcome = PageOutcome::kRefused;
      result.message = status.ToString();
    }
    DECANT_RETURN_IF_ERROR(JudgeAll(page_size, tried));
    DECANT_RETURN_IF_ERROR(TimeAll(page_size, tried));
    for (PageProbeResult& result : tried) {
      results_.push_back(std::move(result));
      DECANT_RETURN_IF_ERROR(on_result_(results_.back()));
    }
    return Status();
  }

  /// Compares with plain attention what was not refused. `tried`: one for each of kernels_.
  Status JudgeAll(int32_t page_size, std::vector<PageProbeResult>& tried) {
    if (NoneWorks(tried)) return Status();
    const Rows decode = DecodeRows(page_size);
    const Rows prompts = PromptRows(page_size);
    const int32_t longest = *ContextLengths(page_size).rbegin();
    // The poisoned entries past a row's pages fit into a table too.
    const DecoderShape shape =
        AttentionOnlyShape(1, options_.shape.heads, options_.shape.kv_heads,
                           options_.shape.head_dim, (CeilDiv(longest, page_size) + 2) * page_size);
    DECANT_ASSIGN_OR_RETURN(
        const std::unique_ptr<Ops> ops,
        make_ops_({.shape = shape,
                   .max_tokens = TokensOf(prompts),
                   .max_rows = static_cast<int32_t>(std::max(decode.size(), prompts.size())),
                   .max_samples = 1}));
    DECANT_ASSIGN_OR_RETURN(
        const PoisonedPages cache,
        PoisonedPages::Allocate(
            *ops, {.page_size = page_size, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim},
            std::max(PagesOf(decode, page_size), PagesOf(prompts, page_size)) + 1));
    for (const bool prompt : {false, true}) {
      AttentionCase attention(*ops, shape, cache, prompt ? prompts : decode, 1);
      for (size_t i = 0; i < kernels_.size(); ++i) {
        if (tried[i].outcome != PageOutcome::kWorks || kernels_[i].has_value() == prompt) continue;
        if (InterruptRequested()) return Error(StatusCode::kCancelled, "interrupted");
        if (!prompt) DECANT_RETURN_IF_ERROR(ops->UseDecodeKernel(*kernels_[i]));
        JudgeRows(attention.rows(), attention.Judge(), tried[i]);
      }
    }
    return Status();
  }

  /// Times what works. `tried`: one for each of kernels_.
  Status TimeAll(int32_t page_size, std::vector<PageProbeResult>& tried) {
    if (NoneWorks(tried)) return Status();
    const std::vector<KernelCase> cases = {options_.decode_timed, options_.prompt_timed};
    Expected<AttentionTimer> timer =
        AttentionTimer::Make(make_ops_, options_.shape, page_size, cases, options_.max_cache_bytes);
    if (!timer.ok() && timer.status().code() != StatusCode::kResourceExhausted) {
      return timer.status();
    }
    for (size_t i = 0; i < kernels_.size(); ++i) {
      if (tried[i].outcome != PageOutcome::kWorks) continue;
      if (!timer.ok()) {
        tried[i].message = fmt::format("not timed: {}", timer.status().message());
        continue;
      }
      if (kernels_[i]) DECANT_RETURN_IF_ERROR(timer->ops().UseDecodeKernel(*kernels_[i]));
      DECANT_ASSIGN_OR_RETURN(
          tried[i].time, timer->Measure(kernels_[i] ? options_.decode_timed : options_.prompt_timed,
                                        options_.repeats));
    }
    return Status();
  }

  static bool NoneWorks(std::span<const PageProbeResult> tried) {
    return std::ranges::none_of(
        tried, [](const PageProbeResult& result) { return result.outcome == PageOutcome::kWorks; });
  }

  const OpsFactory& make_ops_;
  const PageProbeOptions& options_;
  const std::function<Status(const PageProbeResult&)>& on_result_;
  std::vector<Probed> kernels_;
  std::vector<PageProbeResult> results_;
};

}  // namespace

std::string_view PageOutcomeName(PageOutcome outcome) {
  switch (outcome) {
    case PageOutcome::kWorks:
      return "works";
    case PageOutcome::kRefused:
      return "refused";
    case PageOutcome::kWrong:
      return "wrong";
  }
  return "unknown";
}

Expected<std::vector<PageProbeResult>> RunPageProbe(
    const OpsFactory& make_ops, const PageProbeOptions& options,
    const std::function<Status(const PageProbeResult&)>& on_result) {
  return PageProbe(make_ops, options, on_result).Run();
}

}  // namespace decant
