#include "bench/gates/kernel_invariance.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"
#include "bench/attention_batch.h"
#include "bench/gates/attention_case.h"

namespace decant {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
/// Queries of a prompt that are computed: the last ones of its history.
constexpr int32_t kPromptQueries = 300;
constexpr int32_t kMaxTokens = 4096;

enum class Part : uint64_t { kQuery, kKey, kValue };

/// Numbers of one request at one position, uniform in [-1, 1).
void FillPosition(uint64_t content, Part part, int32_t position, std::span<float> out) {
  const CounterRng rng(CounterRng(CounterRng(content).Bits(static_cast<uint64_t>(part)))
                           .Bits(static_cast<uint64_t>(position)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(rng.Uniform(i) * 2 - 1);
}

/// Some of a request's queries, which one step computes.
struct Piece {
  size_t request = 0;
  int32_t query_len = 0;
  int32_t context_len = 0;
};

/// One way to compute outputs: which pieces stand together in a step.
struct Arrangement {
  std::string name;
  std::vector<std::vector<Piece>> steps;
};

/// Bits of the outputs of each request's queries, in order of position; empty where none ran.
struct Outputs {
  explicit Outputs(size_t requests) : tokens(requests), prompts(requests) {}
  std::vector<std::vector<uint32_t>> tokens;   ///< by the decode kernel
  std::vector<std::vector<uint32_t>> prompts;  ///< by the prompt kernel
};

/// The operations for one page size, with every request's K and V in pages of its own.
class Histories {
 public:
  static Expected<Histories> Make(const OpsFactory& make_ops, DecodeKernel kernel,
                                  const InvarianceShape& shape, int32_t page_size) {
    Histories histories(shape, page_size);
    const int32_t longest = *std::ranges::max_element(shape.lengths);
    const DecoderShape decoder =
        AttentionOnlyShape(1, shape.group * shape.kv_heads, shape.kv_heads, shape.head_dim,
                           (CeilDiv(longest, page_size) + 2) * page_size);
    histories.width_ = int64_t{decoder.heads} * decoder.head_dim;
    DECANT_ASSIGN_OR_RETURN(histories.ops_,
                            make_ops({.shape = decoder,
                                      .max_tokens = kMaxTokens,
                                      .max_rows = static_cast<int32_t>(shape.lengths.size()),
                                      .max_samples = 1,
                                      .decode_kernel = kernel}));
    std::vector<CaseRow> rows;
    rows.reserve(shape.lengths.size());
    for (const int32_t length : shape.lengths) rows.push_back({.context_len = length});
    DECANT_ASSIGN_OR_RETURN(
        const PoisonedPages pages,
        PoisonedPages::Allocate(
            *histories.ops_,
            {.page_size = page_size, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim},
            PagesOf(rows, page_size) + 1));
    histories.tables_ = pages.Tables(rows, shape.seed + static_cast<uint64_t>(page_size));
    for (size_t r = 0; r < rows.size(); ++r) histories.Write(r);
    return histories;
  }

  /// The outputs of a step's pieces, appended to those of their requests.
  void Run(std::vector<Piece> pieces, Outputs& outputs) {
    std::stable_partition(pieces.begin(), pieces.end(),
                          [](const Piece& piece) { return piece.query_len == 1; });
    std::vector<CaseRow> rows;
    std::vector<std::vector<int32_t>> tables;
    std::vector<float> queries;
    for (const Piece& piece : pieces) {
      rows.push_back({.query_len = piece.query_len, .context_len = piece.context_len});
      tables.push_back(tables_[piece.request]);
      for (int32_t i = 0; i < piece.query_len; ++i) {
        queries.resize(queries.size() + width_);
        FillPosition(Content(piece.request), Part::kQuery, piece.context_len - piece.query_len + i,
                     std::span(queries).last(width_));
      }
    }
    const AttentionBatch batch(rows, std::move(tables));
    ops_->BeginStep(batch.step());
    ops_->Upload(queries, ops_->queries());
    std::vector<float> out(queries.size(), kNaN);
    ops_->Upload(out, ops_->attended());
    ops_->Attention(0, ops_->queries(), ops_->attended());
    ops_->Download(ops_->attended(), out);
    auto at = out.begin();
    for (const Piece& piece : pieces) {
      const auto end = at + piece.query_len * width_;
      auto& kind = piece.query_len == 1 ? outputs.tokens : outputs.prompts;
      std::transform(at, end, std::back_inserter(kind[piece.request]),
                     [](float value) { return std::bit_cast<uint32_t>(value); });
      at = end;
    }
  }

 private:
  Histories(const InvarianceShape& shape, int32_t page_size)
      : shape_(shape), page_size_(page_size) {}

  uint64_t Content(size_t request) const { return CounterRng(shape_.seed).Bits(request); }

  void Write(size_t request) {
    const int64_t row = int64_t{shape_.kv_heads} * shape_.head_dim;
    std::vector<float> keys(page_size_ * row);
    std::vector<float> values(page_size_ * row);
    for (int32_t first = 0; first < shape_.lengths[request]; first += page_size_) {
      std::ranges::fill(keys, kNaN);
      std::ranges::fill(values, kNaN);
      const int32_t used = std::min(page_size_, shape_.lengths[request] - first);
      ops_->ParallelFor(used, [&](int64_t slot) {
        const auto position = static_cast<int32_t>(first + slot);
        FillPosition(Content(request), Part::kKey, position,
                     std::span(keys).subspan(slot * row, row));
        FillPosition(Content(request), Part::kValue, position,
                     std::span(values).subspan(slot * row, row));
      });
      ops_->WritePage(0, tables_[request][first / page_size_], keys, values);
    }
  }

  InvarianceShape shape_;
  int32_t page_size_;
  int64_t width_ = 0;
  std::unique_ptr<Ops> ops_;
  std::vector<std::vector<int32_t>> tables_;
};

/// The queries of one request cut at multiples of `chunk`, none left alone: that would be a decode
/// token.
std::vector<Piece> Cut(size_t request, int32_t queries, int32_t length, int32_t chunk) {
  std::vector<Piece> pieces;
  int32_t end = length - queries;
  while (end < length) {
    int32_t next = std::min(length, (end / chunk + 1) * chunk);
    if (next - end == 1 || length - next == 1) next = std::min(length, next + 1);
    pieces.push_back({.request = request, .query_len = next - end, .context_len = next});
    end = next;
  }
  return pieces;
}

/// Deals the requests' pieces out to steps: the first of each, the second of each, and so on, as
/// many as a step may hold.
std::vector<std::vector<Piece>> Together(const std::vector<std::vector<Piece>>& requests) {
  size_t most = 0;
  for (const std::vector<Piece>& pieces : requests) most = std::max(most, pieces.size());
  std::vector<std::vector<Piece>> steps;
  for (size_t i = 0; i < most; ++i) {
    int32_t tokens = kMaxTokens;  // so that a round begins a step
    for (const std::vector<Piece>& pieces : requests) {
      if (i >= pieces.size()) continue;
      if (tokens + pieces[i].query_len > kMaxTokens) {
        steps.emplace_back();
        tokens = 0;
      }
      steps.back().push_back(pieces[i]);
      tokens += pieces[i].query_len;
    }
  }
  return steps;
}

/// Each request in steps of its own.
std::vector<std::vector<Piece>> Alone(const std::vector<std::vector<Piece>>& requests) {
  std::vector<std::vector<Piece>> steps;
  for (const std::vector<Piece>& pieces : requests) {
    for (const Piece& piece : pieces) steps.push_back({piece});
  }
  return steps;
}

/// Every second request, from the last.
std::vector<std::vector<Piece>> SomeReversed(std::vector<std::vector<Piece>> requests) {
  std::ranges::reverse(requests);
  std::vector<std::vector<Piece>> some;
  for (size_t i = 0; i < requests.size(); i += 2) some.push_back(std::move(requests[i]));
  return Together(some);
}

/// All arrangements of one page size; the first is the one that others are compared with.
std::vector<Arrangement> Arrangements(const InvarianceShape& shape) {
  std::vector<std::vector<Piece>> tokens;
  std::vector<std::vector<Piece>> prompts;
  for (size_t r = 0; r < shape.lengths.size(); ++r) {
    const int32_t length = shape.lengths[r];
    tokens.push_back({{.request = r, .query_len = 1, .context_len = length}});
    if (length > 1) prompts.push_back(Cut(r, std::min(length, kPromptQueries), length, length));
  }
  std::vector<Arrangement> arrangements = {
      {"decode tokens alone", Alone(tokens)},
      {"decode tokens together", Together(tokens)},
      {"decode tokens together again", Together(tokens)},
      {"every second decode token in reverse", SomeReversed(tokens)},
      {"prompts alone", Alone(prompts)},
      {"prompts together", Together(prompts)},
      {"every second prompt in reverse", SomeReversed(prompts)},
  };
  for (const int32_t chunk : shape.chunks) {
    std::vector<std::vector<Piece>> cut;
    for (const std::vector<Piece>& whole : prompts) {
      const Piece& piece = whole.front();
      cut.push_back(Cut(piece.request, piece.query_len, piece.context_len, chunk));
    }
    arrangements.push_back({fmt::format("prompts in chunks of {}", chunk), Together(cut)});
  }
  // Half of the requests read their prompts while the others generate.
  std::vector<std::vector<Piece>> mixed;
  for (size_t i = 0; i < tokens.size(); i += 2) mixed.push_back(tokens[i]);
  for (size_t i = 1; i < prompts.size(); i += 2) mixed.push_back(prompts[i]);
  arrangements.push_back({"decode tokens beside prompts", Together(mixed)});
  return arrangements;
}

/// Counts what differs from what is expected; what was not expected yet is from now on.
class Comparison {
 public:
  Comparison(DecodeKernel kernel, const InvarianceShape& shape, int64_t width)
      : kernel_(kernel), shape_(shape), width_(width), expected_(shape.lengths.size()) {}

  void Add(const Outputs& outputs, const std::string& arrangement, int32_t page_size) {
    for (size_t r = 0; r < shape_.lengths.size(); ++r) {
      const std::string where = fmt::format("{}, pages of {}", arrangement, page_size);
      Add(outputs.tokens[r], expected_.tokens[r], r, DecodeKernelName(kernel_), where);
      Add(outputs.prompts[r], expected_.prompts[r], r, "prompt", where);
    }
  }

  InvarianceResult Take() { return std::move(result_); }

 private:
  void Add(const std::vector<uint32_t>& outputs, std::vector<uint32_t>& expected, size_t request,
           std::string_view kernel, const std::string& where) {
    if (outputs.empty()) return;
    if (expected.empty()) {
      expected = outputs;
      return;
    }
    DECANT_CHECK(outputs.size() == expected.size(), "{} outputs, {} expected", outputs.size(),
                 expected.size());
    int64_t differing = 0;
    for (size_t at = 0; at < outputs.size(); at += width_) {
      ++result_.compared;
      differing +=
          !std::equal(outputs.begin() + at, outputs.begin() + at + width_, expected.begin() + at);
    }
    if (differing == 0) return;
    result_.differing += differing;
    result_.failures.push_back(
        fmt::format("{}, head dim {}, group {}: {} of {} outputs of the request of {} positions "
                    "have other bits: {}",
                    kernel, shape_.head_dim, shape_.group, differing, outputs.size() / width_,
                    shape_.lengths[request], where));
  }

  DecodeKernel kernel_;
  const InvarianceShape& shape_;
  int64_t width_;
  Outputs expected_;
  InvarianceResult result_;
};

}  // namespace

Expected<InvarianceResult> CompareArrangements(const OpsFactory& make_ops, DecodeKernel kernel,
                                               const InvarianceShape& shape) {
  Comparison comparison(kernel, shape, int64_t{shape.group} * shape.kv_heads * shape.head_dim);
  for (const int32_t page_size : shape.page_sizes) {
    DECANT_ASSIGN_OR_RETURN(Histories histories,
                            Histories::Make(make_ops, kernel, shape, page_size));
    for (const Arrangement& arrangement : Arrangements(shape)) {
      Outputs outputs(shape.lengths.size());
      for (const std::vector<Piece>& step : arrangement.steps) histories.Run(step, outputs);
      comparison.Add(outputs, arrangement.name, page_size);
    }
  }
  return comparison.Take();
}

}  // namespace decant
