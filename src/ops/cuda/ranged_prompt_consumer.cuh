#pragma once

#include "ops/cuda/ranged_prompt_rows.cuh"

namespace decant::ranged_prompt {

/// A consumer warpgroup, one of the two parts of a block: up to 64 rows of each tile. Scores of one
/// block of keys are under way while the block before is multiplied with its values, and the parts
/// take turns, so that one has the matrix units while the other computes exponentials. The second
/// part has nothing to do for tiles of up to 64 rows.
template <typename T, int kHeadDim>
class Consumer {
 public:
  __device__ Consumer(const Args& args, std::byte* shared)
      : args_(args),
        shared_(shared),
        shared_address_(SharedAddress(shared)),
        barriers_{shared_address_ + Place::kBarriersAt},
        part_(static_cast<int>(threadIdx.x) / kPartThreads - 1),
        thread_(threadIdx.x % kPartThreads),
        lane_(threadIdx.x % 32),
        row_(thread_ / 32 * 16 + lane_ / 4) {}

  /// Sums this warpgroup's part of all of the block's items.
  __device__ void Run() {
    PromptItem item = NextItem();
    WaitForEarlierKernels();
    FetchQueries(item);
    if (part_ == 1) PassTurn();  // the first part begins
    while (item.rows != 0) {
      item = item.rows > part_ * kPartRows ? Sum(item) : Skip(item);
    }
  }

  /// The launch's tag; see Tagged.
  __device__ uint32_t Tag() const {
    AwaitPhase(barriers_.TagKnown(), 0);
    return *reinterpret_cast<const volatile uint32_t*>(shared_ + Place::kTagAt);
  }

 private:
  using Place = Places<kHeadDim>;
  using Product = AttentionProduct<T>;

  __device__ PromptItem NextItem() {
    const int place = items_.place();
    AwaitPhase(barriers_.ItemFull(place), items_.parity());
    PromptItem item;
    const auto* from = reinterpret_cast<const int4*>(shared_ + Place::kItemsAt) + place * 3;
    auto* to = reinterpret_cast<int4*>(&item);
#pragma unroll
    for (int i = 0; i < 3; ++i) to[i] = from[i];
    __syncwarp();
    ArriveForWarp(barriers_.ItemEmpty(place), lane_);
    ++items_.count;
    return item;
  }

  __device__ uint32_t QueriesAt() const {
    return shared_address_ + Place::kQueriesAt + part_ * Place::kQueryBytes;
  }

  /// Begins the copy of this part's queries; zeros past the tile's last row.
  __device__ void FetchQueries(const PromptItem& item) {
    const int rows = item.rows - part_ * kPartRows;
    if (rows <= 0) return;
    constexpr int kPieces = kHeadDim / 8;
    constexpr int kRowsAtOnce = kPartThreads / kPieces;
    const int piece = thread_ % kPieces;
#pragma unroll
    for (int i = 0; i < kPartRows / kRowsAtOnce; ++i) {
      const int row = thread_ / kPieces + i * kRowsAtOnce;
      const int packed_row = item.first_row + part_ * kPartRows + min(row, rows - 1);
      CopyAsync16(QueriesAt() + piece / 8 * (Place::kQueryBytes / Place::kHalves) + row * 128 +
                      (piece % 8 ^ row % 8) * 16,
                  static_cast<const T*>(args_.queries) +
                      HeadAt<kHeadDim>(args_, item.token_start, item.kv_head, packed_row) +
                      piece * 8,
                  row < rows);
    }
    CommitCopies();
  }

  /// What the rows of a tile see: keys up to last_key, and all of them those before first_hidden.
  struct Visible {
    int32_t last_key[2];
    int32_t first_hidden;
  };
  __device__ Visible Sees(const PromptItem& item, int32_t first_row, int rows) const {
    const auto position = [&](int32_t packed_row) {
      return item.first_position + static_cast<int32_t>(args_.by_group.Quotient(packed_row));
    };
    return {.last_key = {position(first_row + min(row_, rows - 1)),
                         position(first_row + min(row_ + 8, rows - 1))},
            .first_hidden = position(first_row) + 1};
  }

  /// An item that has no rows for this part: lets the ring go by. Lanes meet before one arrives for
  /// them: a phase that a lane still waits for must not go by, since parity tells only two apart.
  __device__ PromptItem Skip(const PromptItem& item) {
    for (int32_t key = item.key_begin; key < item.key_end; key += kKeys, ++block_.count) {
      AwaitPhase(barriers_.KeysFull(block_.place()), block_.parity());
      __syncwarp();
      Free(barriers_.KeysEmpty(block_.place()));
      AwaitPhase(barriers_.ValuesFull(block_.place()), block_.parity());
      __syncwarp();
      Free(barriers_.ValuesEmpty(block_.place()));
    }
    const PromptItem next = NextItem();
    FetchQueries(next);
    return next;
  }

  __device__ void Free(uint32_t empty_barrier) const { ArriveForWarp(empty_barrier, lane_); }

  __device__ float4* Totals() const {
    return reinterpret_cast<float4*>(shared_ + Place::kTotalsAt + part_ * Place::kTotalBytes) +
           thread_;
  }

  /// Sums this part's rows of an item, writes what comes of it, and returns the next item.
  __device__ PromptItem Sum(const PromptItem& item) {
    const bool turns = item.rows > kPartRows;
    const int rows = item.rows - part_ * kPartRows;
    const int32_t first_row = item.first_row + part_ * kPartRows;
    const Visible visible = Sees(item, first_row, rows);
    RangeRows range;
    TwoRows total;
    range.Clear();
    bool first_range = true;
    int32_t range_end = item.key_begin + item.range;
    float scores[kKeys / 2];
    float sums[kHeadDim / 2];
    uint32_t weights[kKeys / 16][4];
    float factors[2];
#pragma unroll
    for (float& sum : sums) sum = 0;

    WaitCopies<0>();
    FenceSharedForProducts();
    SyncPart();
    WaitKeys(turns);
    MultiplyKeys(scores);
    if (turns) PassTurn();
    WaitProducts<0>();
    HoldSums(scores);
    Free(barriers_.KeysEmpty(block_.place()));
    Weigh(scores, item.key_begin, visible, range, factors);
    Pack(scores, weights);
    int add = 0;
    for (int32_t key = item.key_begin + kKeys; key < item.key_end; key += kKeys) {
      const RingPlace before = block_;
      ++block_.count;
      WaitKeys(turns);
      MultiplyKeys(scores);
      AwaitPhase(barriers_.ValuesFull(before.place()), before.parity());
      MultiplyValues(sums, weights, before.place(), add);
      add = 1;
      if (turns) PassTurn();
      WaitProducts<1>();
      HoldSums(scores);
      Free(barriers_.KeysEmpty(block_.place()));
      const bool fresh = key == range_end;
      const RangeRows done = range;
      if (fresh) range.Clear();
      Weigh(scores, key, visible, range, factors);
      WaitProducts<0>();
      HoldSums(sums);
      Free(barriers_.ValuesEmpty(before.place()));
      Pack(scores, weights);
      if (fresh) {
        TakeRange(sums, Finish(done), first_range, Totals(), total);
        StoreTotal(sums, Totals());
        first_range = false;
        range_end += item.range;
        add = 0;
      } else {
        ScaleRows(sums, factors);
      }
    }
    AwaitPhase(barriers_.ValuesFull(block_.place()), block_.parity());
    MultiplyValues(sums, weights, block_.place(), add);
    SyncPart();  // all warps are done with the queries
    const PromptItem next = NextItem();
    FetchQueries(next);
    WaitProducts<0>();
    HoldSums(sums);
    Free(barriers_.ValuesEmpty(block_.place()));
    ++block_.count;
    const TwoRows finished = Finish(range);
    if (item.slot < 0 || item.awaited > 0) {
      TakeRange(sums, finished, first_range, Totals(), total);
      if (item.awaited > 0) {
        TakeAwaited<kHeadDim>(args_, item, part_, sums, total, Tag());
      }
      WriteResult<T, kHeadDim>(args_, item, first_row, rows, sums, total);
    } else {
      WritePartial<kHeadDim>(args_, item.slot + part_, sums, finished, Tag());
    }
    return next;
  }

  __device__ void WaitKeys(bool turns) const {
    AwaitPhase(barriers_.KeysFull(block_.place()), block_.parity());
    if (turns) AwaitTurn();
  }
  __device__ void AwaitTurn() const {
    if (part_ == 0) {
      SyncNamed<kTurnBarrier, kConsumerThreads>();
    } else {
      SyncNamed<kTurnBarrier + 1, kConsumerThreads>();
    }
  }
  __device__ void PassTurn() const {
    if (part_ == 0) {
      ArriveNamed<kTurnBarrier + 1, kConsumerThreads>();
    } else {
      ArriveNamed<kTurnBarrier, kConsumerThreads>();
    }
  }
  /// Waits for all threads of this part.
  __device__ void SyncPart() const {
    if (part_ == 0) {
      SyncNamed<kPartBarrier, kPartThreads>();
    } else {
      SyncNamed<kPartBarrier + 1, kPartThreads>();
    }
  }

  static constexpr int kSteps = kHeadDim / 16;  ///< products along a head's dims
  static constexpr uint64_t kQueryHalf = Place::kQueryBytes / Place::kHalves / 16;
  static constexpr uint64_t kBlockHalf = Place::kBlockBytes / Place::kHalves / 16;

  /// Begins scores = queries * keys^T of the ring's current block.
  __device__ void MultiplyKeys(float (&scores)[kKeys / 2]) const {
    const uint64_t queries = DescribeOperand(QueriesAt());
    const uint64_t keys =
        DescribeOperand(shared_address_ + Place::kKeysAt + block_.place() * Place::kBlockBytes);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Product::Scores(scores, queries + k / 4 * kQueryHalf + k % 4 * 2,
                      keys + k / 4 * kBlockHalf + k % 4 * 2, k > 0);
    }
    CommitProducts();
  }

  /// Begins sums (+)= weights * values.
  __device__ void MultiplyValues(float (&sums)[kHeadDim / 2], const uint32_t (&weights)[8][4],
                                 int stage, int add) const {
    const uint64_t values =
        DescribeOperand(shared_address_ + Place::kValuesAt + stage * Place::kBlockBytes,
                        Place::kBlockBytes / Place::kHalves);
    FenceProducts();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      Product::Values(sums, weights[k], values + k * (2048 / 16), k > 0 || add != 0);
    }
    CommitProducts();
  }

  /// Scores of keys from `key` on become exponentials, which `range` takes in. factors: what its
  /// sums so far must be multiplied by.
  __device__ void Weigh(float (&scores)[kKeys / 2], int32_t key, const Visible& visible,
                        RangeRows& range, float (&factors)[2]) const {
    if (key + kKeys > visible.first_hidden) Mask(scores, key, visible.last_key);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float offset;
      factors[r] = range.Raise(r, RowMax(scores, r) * args_.scale_log2, offset);
      range.sum[r] =
          __fmaf_rn(range.sum[r], factors[r], Exponentials(scores, r, args_.scale_log2, offset));
    }
  }

  __device__ static void Pack(const float (&scores)[kKeys / 2], uint32_t (&weights)[8][4]) {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      weights[i / 4][i % 4] = PackPair<T>(scores[2 * i], scores[2 * i + 1]);
    }
  }

  __device__ static TwoRows Finish(const RangeRows& range) {
    TwoRows rows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      rows.row[r] = {Untagged(range.max[r]), Untagged(RowSum(range.sum[r]))};
    }
    return rows;
  }

  const Args& args_;
  std::byte* shared_;
  uint32_t shared_address_;
  Barriers<kHeadDim> barriers_;
  int part_;
  int thread_;
  int lane_;
  int row_;
  RingPlace items_;
  RingPlace block_;
};

}  // namespace decant::ranged_prompt
