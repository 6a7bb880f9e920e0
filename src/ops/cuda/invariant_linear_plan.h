#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/cuda/invariant_linear_tiles.h"

namespace decant {

/// What a plan needs to know of a device.
struct LinearDevice {
  int32_t multiprocessors = 0;
  /// Pairs of blocks, each with a multiprocessor to itself, that fit at a time.
  int32_t pairs = 0;
};

/// What is computed.
struct LinearProblem {
  int32_t rows = 0;  ///< of the weight
  int32_t cols = 0;
  int32_t splits = 1;  ///< ranges of column blocks
  int32_t tokens = 1;
  int32_t token_rows_unit = 0;  ///< TokenRowsUnit of what becomes of the sums
};

/// How much of a multiprocessor's shared memory a block of threads takes.
enum class LinearRoom : uint8_t {
  kWhole,
  kHalf,  ///< so that blocks of the next kernel can fetch their weights meanwhile
};

/// How a product is computed.
struct LinearPlan {
  int32_t tile = 0;  ///< index into kLinearTiles
  LinearCut cut;
  int32_t blocks = 0;   ///< of threads
  int32_t cluster = 1;  ///< blocks a cluster
  int32_t stages = 0;   ///< of the ring
  int32_t shared_bytes = 0;
  bool streams_weight = false;
  bool merges_in_ring = false;
  /// Whether blocks wait for others of other clusters: all must be resident.
  bool waits = false;
  /// Whether it may start while the kernel before it ends.
  bool overlaps = true;
};

/// Into how many ranges of column blocks the sums of a weight [rows, cols] are cut, whatever the
/// number of tokens and the device: enough for a few tokens to keep many multiprocessors busy.
int32_t LinearSplits(int32_t rows, int32_t cols);

/// Blocks of threads that are resident at the same time for certain, or pairs of them where they
/// share the input: one that waits for another must be among so many.
int32_t ResidentWorkers(const LinearTile& tile, const LinearDevice& device);

/// The plan of a product with the tile `tile`; none if the tile does not suit the weight, or does
/// not fit the device.
std::optional<LinearPlan> PlanLinearWith(int32_t tile, LinearRoom room,
                                         const LinearProblem& problem, const LinearDevice& device);

/// A way to compute products of a weight.
struct LinearChoice {
  int32_t tile = 0;
  LinearRoom room = LinearRoom::kWhole;
};

/// All choices that have a plan, those first that are expected to be fastest.
std::vector<LinearChoice> RankLinearChoices(const LinearProblem& problem,
                                            const LinearDevice& device);

/// Bytes of a packed weight.
int64_t PackedLinearBytes(int64_t rows, int64_t cols);

}  // namespace decant
