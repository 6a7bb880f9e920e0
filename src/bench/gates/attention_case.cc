#include "bench/gates/attention_case.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/narrow.h"
#include "base/random.h"
#include "bench/gates/precision.h"

namespace decant {
namespace {

/// What stands in block tables past a row's pages; reading there would fault.
constexpr int32_t kPoisonedEntry = 2147480000;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kMarkEvery = 512;

enum class Part : uint64_t { kQuery, kKey, kValue };

/// Numbers of one head at one position, uniform in [-2, 2).
class Content {
 public:
  Content(uint64_t content, Part part, int32_t position, int32_t head)
      : rng_(CounterRng(CounterRng(content).Bits(static_cast<uint64_t>(part)))
                 .Bits((static_cast<uint64_t>(position) << 16) + static_cast<uint64_t>(head))) {}
  float operator()(int32_t dim) const {
    return static_cast<float>(rng_.Uniform(static_cast<uint64_t>(dim)) * 4 - 2);
  }

 private:
  CounterRng rng_;
};

/// Whether a position's key leans towards all queries of its row.
bool Marked(const CaseRow& row, int32_t position) {
  return position == 0 || position % kMarkEvery == kMarkEvery / 3 ||
         position >= row.context_len - row.query_len;
}

/// Makes a marked position weigh as much as half of all others: q . k / sqrt(head_dim) gains
/// log(positions / 2) where q has the sign of dim `dim` added and k `MarkOf` it.
float MarkOf(const CaseRow& row, int32_t head_dim) {
  const double gain = std::log(std::max(1.0, row.context_len / 2.0));
  return static_cast<float>(gain / std::sqrt(static_cast<double>(head_dim)));
}

/// What every second row's keys lean away from its queries, so that all its scores lie some 180
/// below zero: models with large key biases have such, and a kernel that takes zero for the maximum
/// of nothing loses them all.
float LeanAway(size_t row_index) { return row_index % 2 == 1 ? 16.0F : 0.0F; }

float SignOf(int32_t dim) { return (dim * 7 % 5) < 2 ? -1.0F : 1.0F; }

/// In the order that StepBatch asks for.
std::vector<CaseRow> DecodeTokensFirst(std::vector<CaseRow> rows) {
  std::stable_partition(rows.begin(), rows.end(),
                        [](const CaseRow& row) { return row.query_len == 1; });
  return rows;
}

}  // namespace

Expected<PoisonedPages> PoisonedPages::Allocate(Ops& ops, const PageShape& shape, int32_t pages) {
  DECANT_RETURN_IF_ERROR(ops.AllocateCache(pages, shape.page_size));
  for (int32_t page = 0; page < pages; ++page) ops.PoisonPage(page);
  return PoisonedPages(shape, pages);
}

std::vector<std::vector<int32_t>> PoisonedPages::Tables(std::span<const CaseRow> rows,
                                                        uint64_t seed) const {
  std::vector<std::vector<int32_t>> tables = ShuffledTables(rows, shape_.page_size, pages_, seed);
  for (std::vector<int32_t>& table : tables) table.insert(table.end(), 2, kPoisonedEntry);
  return tables;
}

AttentionCase::AttentionCase(Ops& ops, const DecoderShape& shape, const PoisonedPages& pages,
                             std::vector<CaseRow> rows, uint64_t seed)
    : ops_(ops),
      shape_(shape),
      pages_(pages),
      rows_(DecodeTokensFirst(std::move(rows))),
      seed_(seed),
      batch_(rows_, pages.Tables(rows_, seed)) {
  const int64_t width = int64_t{shape.heads} * shape.head_dim;
  std::vector<float> queries;
  for (size_t r = 0; r < rows_.size(); ++r) {
    const uint64_t content = CounterRng(seed_).Bits(r);
    WriteRow(r, content);
    const size_t start = queries.size();
    queries.resize(start + rows_[r].query_len * width);
    MakeQueries(r, content, std::span(queries).subspan(start));
  }
  ops_.BeginStep(batch_.step());
  ops_.Upload(queries, ops_.queries());
  queries_.resize(queries.size());
  ops_.Download(ops_.queries(), queries_);
  ComputeReferences();
}

AttentionCase::~AttentionCase() {
  for (size_t r = 0; r < rows_.size(); ++r) {
    const int32_t used = CeilDiv(rows_[r].context_len, pages_.shape().page_size);
    for (const int32_t page : batch_.step().rows[r].pages.first(used)) ops_.PoisonPage(page);
  }
}

void AttentionCase::WriteRow(size_t row_index, uint64_t content) {
  const CaseRow& row = rows_[row_index];
  const PageShape& shape = pages_.shape();
  const float mark = MarkOf(row, shape.head_dim);
  std::vector<float> keys(shape.elements());
  std::vector<float> values(shape.elements());
  for (int32_t first = 0; first < row.context_len; first += shape.page_size) {
    ops_.ParallelFor(shape.page_size, [&](int64_t slot) {
      const auto position = static_cast<int32_t>(first + slot);
      const bool used = position < row.context_len;
      const float lean = (Marked(row, position) ? mark : 0.0F) - LeanAway(row_index);
      for (int32_t head = 0; head < shape.kv_heads; ++head) {
        const Content key(content, Part::kKey, position, head);
        const Content value(content, Part::kValue, position, head);
        const int64_t at = (slot * shape.kv_heads + head) * shape.head_dim;
        for (int32_t dim = 0; dim < shape.head_dim; ++dim) {
          keys[at + dim] = used ? key(dim) + lean * SignOf(dim) : kNaN;
          values[at + dim] = used ? value(dim) : kNaN;
        }
      }
    });
    ops_.WritePage(0, batch_.step().rows[row_index].pages[first / shape.page_size], keys, values);
  }
}

void AttentionCase::MakeQueries(size_t row_index, uint64_t content,
                                std::span<float> queries) const {
  const CaseRow& row = rows_[row_index];
  size_t at = 0;
  for (int32_t i = 0; i < row.query_len; ++i) {
    const int32_t position = row.context_len - row.query_len + i;
    for (int32_t head = 0; head < shape_.heads; ++head) {
      const Content query(content, Part::kQuery, position, head);
      for (int32_t dim = 0; dim < shape_.head_dim; ++dim) {
        queries[at++] = query(dim) + SignOf(dim);
      }
    }
  }
}

void AttentionCase::ComputeReferences() {
  const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
  plain_.resize(queries_.size());
  rounded_.resize(queries_.size());
  const AttentionRounding rounding{.probabilities = ops_.cache_type(),
                                   .output = ops_.attended().dtype};
  for (size_t r = 0; r < rows_.size(); ++r) {
    const BatchRow& row = batch_.step().rows[r];
    const KvHistory history = ReadHistory(ops_, pages_.shape(), 0, row.pages, row.context_len);
    ops_.ParallelFor(int64_t{row.query_len} * shape_.heads, [&](int64_t item) {
      const int64_t token = row.query_start + item / shape_.heads;
      const auto head = static_cast<int32_t>(item % shape_.heads);
      const int64_t at = token * width + int64_t{head} * shape_.head_dim;
      const auto part = [&](std::vector<float>& all) {
        return std::span(all).subspan(at, shape_.head_dim);
      };
      const int32_t visible = batch_.step().positions[token] + 1;
      const int32_t kv_head = head / shape_.group();
      AttendPlainly(part(queries_), history, kv_head, visible, part(plain_));
      AttendRounded(part(queries_), history, kv_head, visible, rounding, part(rounded_));
    });
  }
}

std::vector<RowError> AttentionCase::Judge() {
  const int64_t width = int64_t{shape_.heads} * shape_.head_dim;
  std::vector<float> out(queries_.size(), kNaN);
  ops_.Upload(out, ops_.attended());
  ops_.Attention(0, ops_.queries(), ops_.attended());
  ops_.Download(ops_.attended(), out);
  std::vector<RowError> errors;
  for (const BatchRow& row : batch_.step().rows) {
    RowError result;
    double largest = 0;
    for (int64_t i = row.query_start * width; i < (row.query_start + row.query_len) * width; ++i) {
      const double error = std::abs(double{out[i]} - plain_[i]);
      if (!std::isfinite(error)) {
        result.error = result.error_ulps = std::numeric_limits<double>::infinity();
      } else if (error > result.error) {
        result.error = error;
        result.error_ulps = error / UnitInLastPlace(ops_.cache_type(), plain_[i]);
      }
      result.rounding = std::max(result.rounding, std::abs(double{rounded_[i]} - plain_[i]));
      largest = std::max(largest, std::abs(double{plain_[i]}));
    }
    // Where rounding happens to lose nothing (a history of one position), a kernel may still be
    // off by the half unit that rounding to the storage type costs.
    result.allowed = 2 * std::max(result.rounding, UnitInLastPlace(ops_.cache_type(), largest) / 2);
    errors.push_back(result);
  }
  return errors;
}

}  // namespace decant
