#pragma once

#include "ops/cuda/element.cuh"
#include "ops/cuda/split_shared.cuh"

namespace decant {

/// Maxima (whole powers of two) and sums of weights of two heads.
struct HeadPair {
  float max[2];
  float sum[2];
};

/// What the first word of a partial's vector is before it is written; nothing that is computed has
/// these bits.
inline constexpr uint32_t kNotWritten = 0xffffffffU;

/// A vector of a partial, as one atomic access: other blocks see all of it or nothing.
__device__ inline uint4 LoadPartial(const float4* place) {
  uint64_t low;
  uint64_t high;
  asm volatile(
      "{\n.reg .b128 vector;\n"
      "ld.relaxed.gpu.global.b128 vector, [%2];\n"
      "mov.b128 {%0, %1}, vector;\n}"
      : "=l"(low), "=l"(high)
      : "l"(place)
      : "memory");
  return make_uint4(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                    static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32));
}
__device__ inline void StorePartial(float4* place, const uint4& words) {
  const uint64_t low = static_cast<uint64_t>(words.y) << 32 | words.x;
  const uint64_t high = static_cast<uint64_t>(words.w) << 32 | words.z;
  asm volatile(
      "{\n.reg .b128 vector;\n"
      "mov.b128 vector, {%1, %2};\n"
      "st.relaxed.gpu.global.b128 [%0], vector;\n}" ::"l"(place),
      "l"(low), "l"(high)
      : "memory");
}

/// Whether a vector has been written: its first word tells.
__device__ inline bool IsWritten(const uint4& words) { return words.x != kNotWritten; }

/// The bits of a number; another NaN for the one that means "not written".
__device__ inline uint32_t WrittenBits(float value) {
  constexpr uint32_t kNan = 0x7fffffffU;
  const uint32_t bits = __float_as_uint(value);
  return bits == kNotWritten ? kNan : bits;
}

__device__ inline float Reciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

/// Whether the lane's two columns of a tile of heads are heads of the group.
__device__ inline bool HasHeads(const SplitArgs& args, int head_tile) {
  return head_tile * kSplitHeadTile + threadIdx.x % 4 * 2 < args.group;
}

/// Writes a fragment of a partial. No flag tells of it: its vectors do, one by one.
__device__ inline void StoreFragment(const SplitArgs& args, int64_t fragment, int head_tile,
                                     const float (&out)[4], const HeadPair& heads) {
  if (!HasHeads(args, head_tile)) return;
  const int lane = threadIdx.x % 32;
  float4* place = args.work.partials + fragment * kSplitFragmentVectors;
  StorePartial(place + lane, make_uint4(WrittenBits(out[0]), __float_as_uint(out[1]),
                                        __float_as_uint(out[2]), __float_as_uint(out[3])));
  if (lane < 4) {
    StorePartial(place + 32 + lane,
                 make_uint4(WrittenBits(heads.max[0]), __float_as_uint(heads.sum[0]),
                            __float_as_uint(heads.max[1]), __float_as_uint(heads.sum[1])));
  }
}

/// Writes 16 dims (tile `dim_tile`) of those heads of a head tile that are under `heads_end`:
/// out / sum. By a whole warp.
template <typename T, int kHeadDim>
__device__ void StoreAttended(const SplitArgs& args, int32_t row_head, int head_tile,
                              int32_t dim_tile, const float (&out)[4], const HeadPair& heads,
                              int32_t heads_end) {
  const int lane = threadIdx.x % 32;
  const float low = Reciprocal(heads.sum[0]);
  const float high = Reciprocal(heads.sum[1]);
  const auto pack = [](float a, float b) {
    const auto pair = Element<T>::FromFloat2(a, b);
    return *reinterpret_cast<const uint32_t*>(&pair);
  };
  // A lane then has dims 2 (lane % 4) and the next, of 8 dims each, of head lane / 4.
  const uint32_t first = TransposeMatrix(pack(out[0] * low, out[1] * high));
  const uint32_t second = TransposeMatrix(pack(out[2] * low, out[3] * high));
  const int32_t head = head_tile * kSplitHeadTile + lane / 4;
  if (head >= heads_end) return;
  T* target = static_cast<T*>(args.attended) +
              (static_cast<int64_t>(row_head) * args.group + head) * kHeadDim + dim_tile * 16 +
              lane % 4 * 2;
  *reinterpret_cast<uint32_t*>(target) = first;
  *reinterpret_cast<uint32_t*>(target + 8) = second;
}

}  // namespace decant
