#include "ops/cuda/invariant_linear_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

/// The blocks of threads that ranges shall come to: one and a half for each multiprocessor of an
/// H100 or H200. Fixed, as all of these: results must not depend on the device that computes them.
constexpr int32_t kWantedBlocks = 200;
/// A weight of so many row blocks is not cut.
constexpr int32_t kUncutRowBlocks = 110;
/// Nor one of fewer column blocks: adding ranges up would take longer than it saves.
constexpr int32_t kUncutColumnBlocks = 20;
/// Column blocks that a range has at least.
constexpr int32_t kShortestRange = 6;

/// What a block may have so that two fit: of a multiprocessor's 228 KiB each block costs 1 KiB
/// more.
constexpr int32_t kSharedBytesHalf = 113 * 1024;

/// About what a plan costs on an H200, in cycles of a multiprocessor; to rank plans by.
double EstimateCycles(const LinearPlan& plan, const LinearProblem& problem,
                      const LinearDevice& device) {
  constexpr double kLaunch = 3500;       // until the first product
  constexpr double kShortestStep = 300;  // the products of a column block, one after another
  constexpr double kCyclesPerToken = 2;  // of the products of a row block and a column block
  constexpr double kIngestBytes = 62;    // a cycle, into a multiprocessor
  constexpr double kMemoryBytes = 2400;  // a cycle, from memory into all of them
  constexpr double kInputBytes = 12000;  // the same from the L2 cache
  constexpr double kMerge = 2500;        // of ranges
  constexpr double kTile = 2500;         // to begin and to end a tile
  constexpr double kTilePerToken = 10;   // to write it
  const LinearTile& tile = kLinearTiles[plan.tile];
  const LinearCut& cut = plan.cut;
  const double step =
      std::max({kShortestStep, tile.row_blocks() * tile.sum_columns() * kCyclesPerToken,
                tile.stage_bytes() / kIngestBytes});
  const double ends = kTile + kTilePerToken * tile.sum_columns() * tile.blocks;
  double cycles = kLaunch;
  if (tile.mode == LinearMode::kCluster) {
    // Where two blocks share a multiprocessor, one multiplies while the other begins or ends.
    const bool pairs = tile.two_fit() && plan.shared_bytes <= kSharedBytesHalf;
    const double turns = CeilDiv(plan.blocks, device.multiprocessors);
    const double waves = CeilDiv(plan.blocks, device.multiprocessors * (pairs ? 2 : 1));
    const double columns = CeilDiv(cut.column_blocks, cut.splits);
    cycles += turns * columns * step + waves * (kMerge + ends);
  } else {
    const double tiles = static_cast<double>(cut.tiles()) * tile.multicast / plan.blocks;
    const double rounds = tile.mode == LinearMode::kChain ? tiles : std::ceil(tiles);
    cycles += rounds * (cut.column_blocks * step + (tile.ping_pong ? 0 : ends)) + ends;
  }
  const double weight = 2.0 * problem.rows * problem.cols;
  const double input = weight * tile.tokens / tile.rows() * cut.token_tiles;
  return std::max(cycles, kLaunch + weight / kMemoryBytes + input / kInputBytes) + 0.05 * cycles;
}

/// A tile of kTokenRows is for few tokens, which it has all, and for more than the next smaller
/// one.
bool SuitsTokenRows(const LinearTile& tile, const LinearProblem& problem) {
  return tile.has_token_rows(problem.token_rows_unit) && problem.tokens <= tile.tokens &&
         (tile.tokens == 8 || problem.tokens > tile.tokens / 2);
}

bool Suits(const LinearTile& tile, const LinearProblem& problem) {
  switch (tile.mode) {
    case LinearMode::kChain:
      return problem.splits == 1;
    case LinearMode::kTokenRows:
      return problem.splits == 1 && SuitsTokenRows(tile, problem);
    default:
      return problem.splits > 1;
  }
}

}  // namespace

int32_t ResidentWorkers(const LinearTile& tile, const LinearDevice& device) {
  return tile.multicast == 1 ? device.multiprocessors : device.pairs;
}

int32_t LinearSplits(int32_t rows, int32_t cols) {
  const int32_t row_blocks = CeilDiv(rows, kLinearBlock);
  const int32_t column_blocks = CeilDiv(cols, kLinearBlock);
  if (row_blocks >= kUncutRowBlocks || column_blocks < kUncutColumnBlocks) return 1;
  const int32_t most = std::min(kLinearMaxSplits, column_blocks / kShortestRange);
  return std::clamp(kWantedBlocks / row_blocks, 2, std::max(2, most));
}

int64_t PackedLinearBytes(int64_t rows, int64_t cols) {
  return CeilDiv<int64_t>(rows, kLinearBlock) * CeilDiv<int64_t>(cols, kLinearBlock) *
         kLinearBlockBytes;
}

std::optional<LinearPlan> PlanLinearWith(int32_t index, LinearRoom room,
                                         const LinearProblem& problem, const LinearDevice& device) {
  const LinearTile& tile = kLinearTiles[index];
  const bool clustered = tile.mode == LinearMode::kCluster;
  if (!Suits(tile, problem)) return std::nullopt;
  LinearPlan plan;
  plan.tile = index;
  LinearCut& cut = plan.cut;
  cut.column_blocks = CeilDiv(problem.cols, kLinearBlock);
  cut.splits = problem.splits;
  cut.row_tiles = CeilDiv(problem.rows, tile.rows() * tile.multicast);
  cut.token_tiles = CeilDiv(problem.tokens, tile.tokens);
  plan.streams_weight = cut.token_tiles == 1;

  if (clustered) {
    plan.blocks = cut.tiles() * cut.splits;
    plan.cluster = cut.splits;
  } else {
    const int32_t resident = ResidentWorkers(tile, device);
    if (resident == 0) return std::nullopt;
    const int32_t workers = std::min(cut.tiles(), resident);
    plan.blocks = workers * tile.multicast;
    plan.cluster = tile.multicast;
    plan.waits = tile.mode == LinearMode::kChain && cut.tiles() > workers;
    const int32_t units = cut.tiles() * cut.column_blocks;
    cut.run = units / workers;
    cut.longer_runs = units % workers;
  }

  const int32_t most = room == LinearRoom::kHalf ? kSharedBytesHalf : kLinearSharedBytes;
  const auto fit = [&](bool merges_in_ring) {
    const int32_t fixed = LinearSharedBytes(tile, cut.splits, 0, merges_in_ring);
    return (most - fixed) / (tile.stage_bytes() + 16);
  };
  // More stages than column blocks are of no use to blocks that compute one piece.
  const int32_t longest = clustered ? CeilDiv(cut.column_blocks, cut.splits) : 64;
  plan.stages = std::min(fit(false), longest);
  const int32_t merge_stages = CeilDiv(LinearMergeBytes(tile, cut.splits), tile.stage_bytes());
  if (clustered && plan.stages < longest && fit(true) >= merge_stages) {
    plan.merges_in_ring = true;
    plan.stages = std::max(std::min(fit(true), longest), merge_stages);
  }
  if (plan.stages < std::min(3, longest)) return std::nullopt;
  plan.shared_bytes = LinearSharedBytes(tile, cut.splits, plan.stages, plan.merges_in_ring);
  return plan;
}

std::vector<LinearChoice> RankLinearChoices(const LinearProblem& problem,
                                            const LinearDevice& device) {
  std::vector<std::pair<double, LinearChoice>> ranked;
  for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
    for (const LinearRoom room : {LinearRoom::kHalf, LinearRoom::kWhole}) {
      const auto plan = PlanLinearWith(tile, room, problem, device);
      if (plan) ranked.push_back({EstimateCycles(*plan, problem, device), {tile, room}});
    }
  }
  std::ranges::stable_sort(ranked, {}, &std::pair<double, LinearChoice>::first);
  std::vector<LinearChoice> choices;
  choices.reserve(ranked.size());
  for (const auto& [cycles, choice] : ranked) choices.push_back(choice);
  return choices;
}

}  // namespace decant
