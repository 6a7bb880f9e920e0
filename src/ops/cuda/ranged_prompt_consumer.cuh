#pragma once

#include "ops/cuda/element.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/ranged_prompt_parts.cuh"

namespace decant::ranged_prompt {

/// Named barriers; 0 is __syncthreads.
inline constexpr int kTurnBarrier = 1;     ///< + part: it is that part's turn at the matrix units
inline constexpr int kQueriesBarrier = 3;  ///< + part: among the part's own threads
inline constexpr int kMergeBarrier = 5;

/// A consumer warpgroup: 64 rows of each tile. Scores of one block of keys are under way while the
/// block before is multiplied with its values; two parts take turns, so that one has the matrix
/// units while the other computes exponentials.
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
        row_(thread_ / 32 * 16 + lane_ / 4) {
#pragma unroll
    for (float& sum : sums_) sum = 0;
  }

  /// Sums this warpgroup's part of all of the block's items.
  __device__ void Run() {
    PromptItem item = NextItem();
    WaitForEarlierKernels();
    FetchQueries(item);
    if (part_ == 1) ArriveNamed(kTurnBarrier, kConsumerThreads);
    while (item.rows != 0) item = item.rows > part_ * kPartRows ? Sum(item) : Skip(item);
  }

  /// The launch's tag; see Tagged.
  __device__ uint32_t Tag() const {
    WaitBarrier(barriers_.TagKnown(), 0);
    return *reinterpret_cast<const volatile uint32_t*>(shared_ + Place::kTagAt);
  }

 private:
  using Place = Places<kHeadDim>;
  using Product = AttentionProduct<T>;

  /// What a thread knows of its two rows, row_ and row_ + 8.
  struct Rows {
    RowScale scale[2];
    __device__ void Clear() {
      scale[0] = {-INFINITY, 0};
      scale[1] = {-INFINITY, 0};
    }
  };

  __device__ PromptItem NextItem() {
    const int place = items_.place();
    WaitBarrier(barriers_.ItemFull(place), items_.parity());
    PromptItem item;
    const auto* from = reinterpret_cast<const int4*>(shared_ + Place::kItemsAt) + place * 3;
    auto* to = reinterpret_cast<int4*>(&item);
#pragma unroll
    for (int i = 0; i < 3; ++i) to[i] = from[i];
    __syncwarp();
    if (lane_ == 0) ArriveAtBarrier(barriers_.ItemEmpty(place));
    ++items_.count;
    return item;
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

  __device__ void AwaitQueries() const {
    WaitCopies<0>();
    FenceSharedForProducts();
    SyncNamed(kQueriesBarrier + part_, kPartThreads);
  }

  /// An item that has no rows for this part: lets the ring go by.
  __device__ PromptItem Skip(const PromptItem& item) {
    for (int32_t key = item.key_begin; key < item.key_end; key += kKeys, ++block_.count) {
      const int stage = block_.place();
      WaitBarrier(barriers_.KeysFull(stage), block_.parity());
      if (lane_ == 0) ArriveAtBarrier(barriers_.KeysEmpty(stage));
      WaitBarrier(barriers_.ValuesFull(stage), block_.parity());
      if (lane_ == 0) ArriveAtBarrier(barriers_.ValuesEmpty(stage));
    }
    const PromptItem next = NextItem();
    FetchQueries(next);
    return next;
  }

  /// Sums an item, writes what comes of it, and returns the next item.
  __device__ PromptItem Sum(const PromptItem& item) {
    const bool turns = item.rows > kPartRows;
    const int rows = item.rows - part_ * kPartRows;
    const int first_row = item.first_row + part_ * kPartRows;
    const int32_t first_key = item.first_position +  // that not all rows see
                              static_cast<int32_t>(args_.by_group.Quotient(first_row)) + 1;
    int32_t last_key[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      last_key[r] =
          item.first_position +
          static_cast<int32_t>(args_.by_group.Quotient(first_row + min(row_ + 8 * r, rows - 1)));
    }
    const bool whole = item.slot < 0;
    Rows range;
    Rows total;
    range.Clear();
    bool first_range = true;
    int32_t range_end = item.key_begin + item.range;

    AwaitQueries();
    if (turns)
      WaitKeysForTurn();
    else
      WaitKeys();
    MultiplyKeys();
    if (turns) PassTurn();
    AwaitProducts<0>();
    FreeKeys();
    float factors[2];
    Exponentials(item.key_begin, first_key, last_key, range, factors);
    PackWeights();
    int add = 0;
    for (int32_t key = item.key_begin + kKeys; key < item.key_end; key += kKeys) {
      const RingPlace values = block_;
      ++block_.count;
      if (turns)
        WaitKeysForTurn();
      else
        WaitKeys();
      MultiplyKeys();
      WaitBarrier(barriers_.ValuesFull(values.place()), values.parity());
      MultiplyValues(values.place(), add);
      add = 1;
      if (turns) PassTurn();
      AwaitProducts<1>();
      FreeKeys();
      const bool fresh = key == range_end;
      const Rows done = range;
      if (fresh) range.Clear();
      Exponentials(key, first_key, last_key, range, factors);
      AwaitProducts<0>();
      HoldSums(sums_);
      if (lane_ == 0) ArriveAtBarrier(barriers_.ValuesEmpty(values.place()));
      PackWeights();
      if (fresh) {
        TakeRange(done, total, first_range);
        StoreTotal();
        first_range = false;
        range_end += item.range;
        add = 0;
      } else if (__any_sync(0xffffffffU, factors[0] != 1 || factors[1] != 1)) {
        // Times 1 changes nothing.
#pragma unroll
        for (int i = 0; i < kSums; ++i) sums_[i] *= factors[i / 2 % 2];
      }
    }
    WaitBarrier(barriers_.ValuesFull(block_.place()), block_.parity());
    MultiplyValues(block_.place(), add);
    SyncNamed(kQueriesBarrier + part_, kPartThreads);  // all warps are done with the queries
    const PromptItem next = NextItem();
    FetchQueries(next);
    AwaitProducts<0>();
    HoldSums(sums_);
    if (lane_ == 0) ArriveAtBarrier(barriers_.ValuesEmpty(block_.place()));
    ++block_.count;
    if (whole) {
      TakeRange(range, total, first_range);
      WriteResult(item, total);
    } else {
      ReduceSums(range);
      WritePartial(item, range);
    }
    return next;
  }

  __device__ void WaitKeys() const {
    WaitBarrier(barriers_.KeysFull(block_.place()), block_.parity());
  }
  __device__ void WaitKeysForTurn() const {
    WaitKeys();
    SyncNamed(kTurnBarrier + part_, kConsumerThreads);
  }
  __device__ void PassTurn() const { ArriveNamed(kTurnBarrier + 1 - part_, kConsumerThreads); }

  __device__ uint32_t QueriesAt() const {
    return shared_address_ + Place::kQueriesAt + part_ * Place::kQueryBytes;
  }

  /// Begins scores_ = queries * keys^T of the ring's current block.
  __device__ void MultiplyKeys() {
    constexpr int kSteps = kHeadDim / 16;
    constexpr uint64_t kQueryHalf = Place::kQueryBytes / Place::kHalves / 16;
    constexpr uint64_t kKeyHalf = Place::kBlockBytes / Place::kHalves / 16;
    const uint64_t queries = DescribeSwizzled(QueriesAt(), 16);
    const uint64_t keys = DescribeSwizzled(
        shared_address_ + Place::kKeysAt + block_.place() * Place::kBlockBytes, 16);
    BeginProducts();
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      Product::Scores(scores_, queries + k / 4 * kQueryHalf + k % 4 * 2,
                      keys + k / 4 * kKeyHalf + k % 4 * 2, k > 0);
    }
    EndProducts();
  }

  /// Scores have come: the keys' place may be filled again.
  __device__ void FreeKeys() {
    HoldSums(scores_);
    if (lane_ == 0) ArriveAtBarrier(barriers_.KeysEmpty(block_.place()));
  }

  /// Begins sums_ (+)= weights * values.
  __device__ void MultiplyValues(int stage, int add) {
    const uint64_t values =
        DescribeSwizzled(shared_address_ + Place::kValuesAt + stage * Place::kBlockBytes,
                         Place::kBlockBytes / Place::kHalves);
    BeginProducts();
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      Product::Values(sums_, weights_[k], values + k * (2048 / 16), k > 0 || add != 0);
    }
    EndProducts();
  }

  /// scores_ of keys from `key` on become exponentials; `range` takes them in. factors: what the
  /// range's sums so far must be multiplied by.
  __device__ void Exponentials(int32_t key, int32_t first_key, const int32_t (&last_key)[2],
                               Rows& range, float (&factors)[2]) {
    if (key + kKeys > first_key) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) {
        const int32_t of_score = key + i / 4 * 8 + lane_ % 4 * 2 + i % 2;
        if (of_score > last_key[i / 2 % 2]) scores_[i] = -INFINITY;
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float max = fmaxf(scores_[2 * r], scores_[2 * r + 1]);
#pragma unroll
      for (int i = 4; i < kKeys / 2; i += 4) {
        max = fmaxf(max, fmaxf(scores_[i + 2 * r], scores_[i + 2 * r + 1]));
      }
      max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, 1));
      max = fmaxf(max, __shfl_xor_sync(0xffffffffU, max, 2));
      max = fmaxf(range.scale[r].max, max * args_.scale_log2);
      const float offset = max == -INFINITY ? 0 : max;  // of nothing, so that no NaN comes of it
      factors[r] = Exp2(range.scale[r].max - offset);
      range.scale[r].max = max;
      float even = 0;
      float odd = 0;
#pragma unroll
      for (int i = 0; i < kKeys / 2; i += 4) {
        float& low = scores_[i + 2 * r];
        float& high = scores_[i + 2 * r + 1];
        low = Exp2(__fmaf_rn(low, args_.scale_log2, -offset));
        high = Exp2(__fmaf_rn(high, args_.scale_log2, -offset));
        even += low;
        odd += high;
      }
      range.scale[r].sum = __fmaf_rn(range.scale[r].sum, factors[r], even + odd);
    }
  }

  __device__ void PackWeights() {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      const auto pair = Element<T>::FromFloat2(scores_[2 * i], scores_[2 * i + 1]);
      weights_[i / 4][i % 4] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }

  /// The four lanes of a row each have a part of the sum of its exponentials.
  __device__ static void ReduceSums(Rows& range) {
#pragma unroll
    for (RowScale& scale : range.scale) {
      scale.sum += __shfl_xor_sync(0xffffffffU, scale.sum, 1);
      scale.sum += __shfl_xor_sync(0xffffffffU, scale.sum, 2);
    }
  }

  __device__ float4* Totals() const {
    return reinterpret_cast<float4*>(shared_ + Place::kTotalsAt + part_ * Place::kTotalBytes) +
           thread_;
  }

  /// A range is summed: sums_ and `total` become the total up to here, whose values before lie in
  /// shared memory.
  __device__ void TakeRange(Rows range, Rows& total, bool first_range) {
    ReduceSums(range);
#pragma unroll
    for (RowScale& scale : range.scale) scale = {Untagged(scale.max), Untagged(scale.sum)};
#pragma unroll
    for (float& sum : sums_) sum = Untagged(sum);
    if (first_range) {
      total = range;
      return;
    }
    const MergeFactors low = MergeScale(total.scale[0], range.scale[0]);
    const MergeFactors high = MergeScale(total.scale[1], range.scale[1]);
    const float4* totals = Totals();
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      const float4 before = totals[i / 4 * kPartThreads];
      sums_[i] = MergeValue(before.x, sums_[i], low);
      sums_[i + 1] = MergeValue(before.y, sums_[i + 1], low);
      sums_[i + 2] = MergeValue(before.z, sums_[i + 2], high);
      sums_[i + 3] = MergeValue(before.w, sums_[i + 3], high);
    }
  }

  __device__ void StoreTotal() const {
    float4* totals = Totals();
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      totals[i / 4 * kPartThreads] =
          make_float4(sums_[i], sums_[i + 1], sums_[i + 2], sums_[i + 3]);
    }
  }

  __device__ void WriteResult(const PromptItem& item, const Rows& total) const {
    const int rows = item.rows - part_ * kPartRows;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = row_ + 8 * r;
      if (row >= rows) continue;
      const float inverse = 1.0F / total.scale[r].sum;
      T* to = static_cast<T*>(args_.attended) +
              HeadAt<kHeadDim>(args_, item.token_start, item.kv_head,
                               item.first_row + part_ * kPartRows + row) +
              lane_ % 4 * 2;
#pragma unroll
      for (int i = 0; i < kSums; i += 4) {
        *reinterpret_cast<typename Element<T>::Pair*>(to + i * 2) =
            Element<T>::FromFloat2(sums_[i + 2 * r] * inverse, sums_[i + 2 * r + 1] * inverse);
      }
    }
  }

  /// Stores a range's sums for the merge; whole parts, rows past the tile's last included: every
  /// word of a slot in use has the tag of the last launch.
  __device__ void WritePartial(const PromptItem& item, const Rows& range) const {
    const uint32_t tag = Tag();
    const int64_t slot = item.slot + part_;
    float4* sums = args_.sums + slot * (kSums / 4) * kPartThreads + thread_;
#pragma unroll
    for (int i = 0; i < kSums; i += 4) {
      StoreRelaxed(sums + i / 4 * kPartThreads,
                   make_uint4(Tagged(sums_[i], tag), Tagged(sums_[i + 1], tag),
                              Tagged(sums_[i + 2], tag), Tagged(sums_[i + 3], tag)));
    }
    if (lane_ % 4 == 0) {
      StoreRelaxed(args_.scales + slot * 32 + thread_ / 4,
                   make_uint4(Tagged(range.scale[0].max, tag), Tagged(range.scale[0].sum, tag),
                              Tagged(range.scale[1].max, tag), Tagged(range.scale[1].sum, tag)));
    }
  }

  static constexpr int kSums = kHeadDim / 2;

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
  float scores_[kKeys / 2];
  float sums_[kSums];
  uint32_t weights_[kKeys / 16][4];
};

}  // namespace decant::ranged_prompt
