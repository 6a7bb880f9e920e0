// Compiled once for each instruction set (see CMakeLists.txt), with DECANT_KERNEL_LEVEL naming the
// result. Plain loops that the compiler vectorises; intrinsics only where it cannot, for the bf16
// dot product.

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "ops/cpu/cpu_kernels.h"
#include "ops/cpu/cpu_kernels_levels.h"
#include "tensor/f16.h"

namespace decant {
namespace {

constexpr int kLanes = 16;

/// 1.5 * 2^23: adding it rounds to a whole number in the low mantissa bits.
constexpr float kRound = 12582912.0F;

/// ln(2)^k / k! for k from 7 to 0: the Taylor series of 2^f.
constexpr float kExp2Coefficients[] = {1.5252734e-5F, 1.5403530e-4F, 1.3333558e-3F, 9.6181291e-3F,
                                       5.5504109e-2F, 2.4022651e-1F, 6.9314718e-1F, 1.0F};

/// 2^x for x <= 0 with a relative error under 2e-7; 0 below -126. The polynomial is the Taylor
/// series of 2^f on
/// [-0.5, 0.5]. Branch-free, so that a loop over it vectorises.
inline float Exp2(float x) {
  const float clamped = x < -126.0F ? -126.0F : x;
  const float shifted = clamped + kRound;
  const float whole = shifted - kRound;
  const float f = clamped - whole;
  float p = kExp2Coefficients[0];
  for (int i = 1; i < 8; ++i) p = p * f + kExp2Coefficients[i];
  const auto exponent = std::bit_cast<uint32_t>(shifted) << 23;
  const float result = std::bit_cast<float>(std::bit_cast<uint32_t>(p) + exponent);
  return x < -126.0F ? 0.0F : result;
}

inline float SumLanes(const std::array<float, kLanes>& lanes) {
  std::array<float, kLanes> s = lanes;
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) s[i] += s[i + width];
  }
  return s[0];
}

inline void Store(float value, float* out) { *out = value; }
inline void Store(float value, Bf16* out) { *out = ToBf16(value); }

template <typename Out>
void RmsNorm(const float* x, const float* weight, float epsilon, int32_t n, Out* out) {
  std::array<float, kLanes> squares{};
  int32_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) squares[lane] += x[i + lane] * x[i + lane];
  }
  for (; i < n; ++i) squares[i % kLanes] += x[i] * x[i];
  const float inverse = 1.0F / std::sqrt(SumLanes(squares) / static_cast<float>(n) + epsilon);
  for (i = 0; i < n; ++i) Store(x[i] * inverse * weight[i], out + i);
}

void Add(float* __restrict x, const float* __restrict y, int32_t n) {
  for (int32_t i = 0; i < n; ++i) x[i] += y[i];
}

template <typename Out>
void SiluMul(const float* __restrict gate, const float* __restrict up, int32_t n,
             Out* __restrict out) {
  constexpr float kLog2E = 1.44269504F;
  for (int32_t i = 0; i < n; ++i) {
    // exp(-|g|) stays in Exp2's domain; the sigmoid follows from it for either sign.
    const float g = gate[i];
    const float e = Exp2(-std::abs(g) * kLog2E);
    const float sigmoid = (g < 0.0F ? e : 1.0F) / (1.0F + e);
    Store(g * sigmoid * up[i], out + i);
  }
}

void Rope(float* __restrict head, const float* __restrict cos, const float* __restrict sin,
          int32_t head_dim) {
  const int32_t half = head_dim / 2;
  for (int32_t i = 0; i < half; ++i) {
    const float low = head[i];
    const float high = head[i + half];
    head[i] = low * cos[i] - high * sin[i];
    head[i + half] = high * cos[i] + low * sin[i];
  }
}

void ConvertToBf16(const float* __restrict x, int64_t n, Bf16* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ToBf16(x[i]);
}

/// A block of quantised weights, of 16 rows and 32 columns, in either packing.
template <int kBits>
constexpr int64_t kCompactBlockBytes = 64 + 16 * 32 * kBits / 8;

#if defined(__AVX512BF16__)

#if !defined(DECANT_AMX)

inline __m512bh AsBf16(__m512i v) { return std::bit_cast<__m512bh>(v); }

/// A pair of neighbouring bf16 values in every lane.
inline __m512bh BroadcastPair(const Bf16* pair) {
  int32_t bits = 0;
  std::memcpy(&bits, pair, sizeof(bits));
  return AsBf16(_mm512_set1_epi32(bits));
}

/// Scores of kRows rows against kBlocks blocks: one accumulator each, all pairs of dims in order.
template <int kRows, int kBlocks>
inline void Scores(const AttendRangeArgs& args, int row, int block, int blocks, float* scores) {
  __m512 sums[kRows * kBlocks];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  const int pairs = args.head_dim / 2;
  const Bf16* q = args.q + static_cast<int64_t>(row) * args.head_dim;
  // The first rows fetch the values of these keys and the keys that come next, while they wait for
  // nothing else.
  const bool fetch = row == 0;
  for (int pair = 0; pair < pairs; ++pair) {
    if (fetch) {
      for (int b = 0; b < kBlocks; ++b) {
        const int next = std::min(block + kBlocks + b, blocks - 1);
        _mm_prefetch(args.v_blocks[block + b] + pair * 2 * kBlockTokens, _MM_HINT_T0);
        _mm_prefetch(args.k_blocks[next] + pair * 2 * kBlockTokens, _MM_HINT_T0);
      }
    }
    __m512bh k[kBlocks];
    for (int b = 0; b < kBlocks; ++b) {
      k[b] = AsBf16(_mm512_loadu_si512(args.k_blocks[block + b] + pair * 2 * kBlockTokens));
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512bh qr = BroadcastPair(q + r * args.head_dim + 2 * pair);
      for (int b = 0; b < kBlocks; ++b) {
        sums[r * kBlocks + b] = _mm512_dpbf16_ps(sums[r * kBlocks + b], k[b], qr);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int b = 0; b < kBlocks; ++b) {
      _mm512_storeu_ps(scores + (row + r) * kMaxRangeTokens + (block + b) * kBlockTokens,
                       sums[r * kBlocks + b]);
    }
  }
}

/// acc[rows, 16 * kVectors dims from `dim`] of kRows rows over all blocks, pairs of positions in
/// order.
template <int kRows, int kVectors>
inline void WeighValues(const AttendRangeArgs& args, int row, int dim, int blocks,
                        const Bf16* weights) {
  __m512 sums[kRows * kVectors];
  for (auto& sum : sums) sum = _mm512_setzero_ps();
  for (int block = 0; block < blocks; ++block) {
    const Bf16* v = args.v_blocks[block] + 2 * dim;
    const Bf16* w = weights + row * kMaxRangeTokens + block * kBlockTokens;
    for (int pair = 0; pair < kBlockTokens / 2; ++pair, v += 2 * args.head_dim) {
      __m512bh values[kVectors];
      for (int i = 0; i < kVectors; ++i) values[i] = AsBf16(_mm512_loadu_si512(v + 32 * i));
      for (int r = 0; r < kRows; ++r) {
        const __m512bh wr = BroadcastPair(w + r * kMaxRangeTokens + 2 * pair);
        for (int i = 0; i < kVectors; ++i) {
          sums[r * kVectors + i] = _mm512_dpbf16_ps(sums[r * kVectors + i], values[i], wr);
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* acc = args.acc + static_cast<int64_t>(row + r) * args.head_dim + dim;
    for (int i = 0; i < kVectors; ++i) _mm512_storeu_ps(acc + 16 * i, sums[r * kVectors + i]);
  }
}

#endif

/// Exp2 of 16 numbers at once.
inline __m512 Exp2(__m512 x) {
  const __m512 whole =
      _mm512_roundscale_ps(_mm512_max_ps(x, _mm512_set1_ps(-126.0F)), _MM_FROUND_TO_NEAREST_INT);
  const __m512 f = _mm512_sub_ps(_mm512_max_ps(x, _mm512_set1_ps(-126.0F)), whole);
  __m512 p = _mm512_set1_ps(kExp2Coefficients[0]);
  for (int i = 1; i < 8; ++i) p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(kExp2Coefficients[i]));
  const __mmask16 in_range = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0F), _CMP_GE_OQ);
  return _mm512_maskz_scalef_ps(in_range, p, whole);
}

/// Turns a row's scores into weights exp2(score - max), in fp32 for their sum and bf16 for the
/// values.
inline void SoftmaxRow(const AttendRangeArgs& args, int row, int padded_keys, float* scores,
                       Bf16* weights) {
  const int visible = std::clamp(args.visible[row], 0, args.keys);
  const __m512 minus_infinity = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
  const __m512 scale = _mm512_set1_ps(args.scale);
  __m512 maxima = minus_infinity;
  for (int t = 0; t < padded_keys; t += kLanes) {
    const int seen = std::clamp(visible - t, 0, kLanes);
    const auto mask = static_cast<__mmask16>((1U << seen) - 1U);
    const __m512 score =
        _mm512_mask_mul_ps(minus_infinity, mask, _mm512_loadu_ps(scores + t), scale);
    _mm512_storeu_ps(scores + t, score);
    maxima = _mm512_max_ps(maxima, score);
  }
  const float max = _mm512_reduce_max_ps(maxima);
  // A row that sees nothing keeps weights of zero: exp2(-inf - 0) rather than exp2(-inf + inf).
  const __m512 reference = _mm512_set1_ps(visible > 0 ? max : 0.0F);
  __m512 sums = _mm512_setzero_ps();
  for (int t = 0; t < padded_keys; t += kLanes) {
    const __m512 weight = Exp2(_mm512_sub_ps(_mm512_loadu_ps(scores + t), reference));
    sums = _mm512_add_ps(sums, weight);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(weights + t),
                        std::bit_cast<__m256i>(_mm512_cvtneps_pbh(weight)));
  }
  args.max[row] = max;
  args.sum[row] = _mm512_reduce_add_ps(sums);
}

/// Scales of 16 weight rows, each twice, for vectors that hold pairs of columns of 8 rows.
struct PairScales {
  __m512 low_scale, high_scale, low_offset, high_offset;
};

/// A block's header: 16 scales and 16 offsets in fp16. The code is used as kBias + code, a number
/// whose mantissa the code's bits are; the offset makes up for the bias.
template <int kBias>
inline PairScales LoadScales(const std::byte* block) {
  const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block)));
  const __m512 raw =
      _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32)));
  const __m512 offset = _mm512_fnmadd_ps(scale, _mm512_set1_ps(kBias), raw);
  const __m512i low = _mm512_set_epi32(7, 7, 6, 6, 5, 5, 4, 4, 3, 3, 2, 2, 1, 1, 0, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  return {_mm512_permutexvar_ps(low, scale), _mm512_permutexvar_ps(high, scale),
          _mm512_permutexvar_ps(low, offset), _mm512_permutexvar_ps(high, offset)};
}

/// 128 + the nibble at bits 4 * kPair of each lane, as fp32.
template <int kPair>
inline __m512 BiasedNibble(__m512i codes) {
  constexpr int kShift = 16 - 4 * kPair;
  __m512i moved = codes;
  if constexpr (kShift > 0) moved = _mm512_slli_epi32(codes, kShift);
  if constexpr (kShift < 0) moved = _mm512_srli_epi32(codes, -kShift);
  // (moved & 0x000f0000) | 0x43000000
  return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(moved, _mm512_set1_epi32(0x000f0000),
                                                       _mm512_set1_epi32(0x43000000), 0xea));
}

/// Calls use(pair, weights) for the 16 pairs of columns of a block in order; a lane of weights is a
/// row's pair in bf16.
template <int kBits, typename Use>
inline void DecodeBlock(const std::byte* block, Use&& use) {
  const PairScales s = LoadScales < kBits == 4 ? 128 : 0 > (block);
  const std::byte* codes = block + 64;
  if constexpr (kBits == 4) {
    for (int half = 0; half < 2; ++half, codes += 128) {
      const __m512i low = _mm512_loadu_si512(codes);
      const __m512i high = _mm512_loadu_si512(codes + 64);
      const auto decode = [&]<int kPair>(std::integral_constant<int, kPair>) {
        use(half * 8 + kPair,
            _mm512_cvtne2ps_pbh(
                _mm512_fmadd_ps(BiasedNibble<kPair>(high), s.high_scale, s.high_offset),
                _mm512_fmadd_ps(BiasedNibble<kPair>(low), s.low_scale, s.low_offset)));
      };
      [&]<int... kPairs>(std::integer_sequence<int, kPairs...>) {
        (decode(std::integral_constant<int, kPairs>{}), ...);
      }
      (std::make_integer_sequence<int, 8>{});
    }
  } else {
    const auto widen = [](const std::byte* bytes) {
      return _mm512_cvtepi32_ps(
          _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes))));
    };
    for (int pair = 0; pair < 16; ++pair, codes += 32) {
      use(pair, _mm512_cvtne2ps_pbh(_mm512_fmadd_ps(widen(codes + 16), s.high_scale, s.high_offset),
                                    _mm512_fmadd_ps(widen(codes), s.low_scale, s.low_offset)));
    }
  }
}

#if defined(DECANT_AMX)

#include "ops/cpu/amx_kernels.inc"

#else

template <int kBits, int kTokens>
void CompactMultiplyTokens(const CompactMultiplyArgs& args) {
  const int blocks = args.cols / 32;
  const int chunk_blocks = args.chunk_cols / 32;
  const std::byte* packed = args.packed;
  for (int row = 0; row < args.out_rows; row += 16) {
    __m512 totals[kTokens];
    for (int first = 0; first < blocks; first += chunk_blocks) {
      __m512 sums[kTokens];
      for (auto& sum : sums) sum = _mm512_setzero_ps();
      const int last = std::min(blocks, first + chunk_blocks);
      for (int block = first; block < last; ++block, packed += kCompactBlockBytes<kBits>) {
        const Bf16* x = args.input + block * 32;
        DecodeBlock<kBits>(packed, [&](int pair, __m512bh weights) {
          for (int t = 0; t < kTokens; ++t) {
            sums[t] =
                _mm512_dpbf16_ps(sums[t], weights,
                                 BroadcastPair(x + static_cast<int64_t>(t) * args.cols + 2 * pair));
          }
        });
      }
      for (int t = 0; t < kTokens; ++t) {
        totals[t] = first == 0 ? sums[t] : _mm512_add_ps(totals[t], sums[t]);
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      _mm512_storeu_ps(args.out + static_cast<int64_t>(t) * args.out_rows + row, totals[t]);
    }
  }
}

constexpr int32_t kCompactTokens = 16;

/// A count between two of the cases is rounded up: the rows past the last are somebody's padding,
/// computed and not used.
template <int kBits>
void CompactMultiply(const CompactMultiplyArgs& args) {
  const int32_t tokens = args.tokens;
  if (tokens <= 1) return CompactMultiplyTokens<kBits, 1>(args);
  if (tokens <= 2) return CompactMultiplyTokens<kBits, 2>(args);
  if (tokens <= 4) return CompactMultiplyTokens<kBits, 4>(args);
  if (tokens <= 6) return CompactMultiplyTokens<kBits, 6>(args);
  if (tokens <= 8) return CompactMultiplyTokens<kBits, 8>(args);
  if (tokens <= 12) return CompactMultiplyTokens<kBits, 12>(args);
  return CompactMultiplyTokens<kBits, 16>(args);
}

#endif

constexpr auto kCompactMultiply4 = CompactMultiply<4>;
constexpr auto kCompactMultiply8 = CompactMultiply<8>;

#else

constexpr int32_t kCompactTokens = 0;
constexpr void (*kCompactMultiply4)(const CompactMultiplyArgs&) = nullptr;
constexpr void (*kCompactMultiply8)(const CompactMultiplyArgs&) = nullptr;

template <int kRows, int kBlocks>
inline void Scores(const AttendRangeArgs& args, int row, int block, int /*blocks*/, float* scores) {
  const int pairs = args.head_dim / 2;
  for (int r = 0; r < kRows; ++r) {
    const Bf16* q = args.q + static_cast<int64_t>(row + r) * args.head_dim;
    for (int b = 0; b < kBlocks; ++b) {
      const Bf16* k = args.k_blocks[block + b];
      std::array<float, kBlockTokens> sums{};
      for (int pair = 0; pair < pairs; ++pair) {
        const float q0 = ToFloat(q[2 * pair]);
        const float q1 = ToFloat(q[2 * pair + 1]);
        for (int t = 0; t < kBlockTokens; ++t) {
          sums[t] += q0 * ToFloat(k[2 * t]);
          sums[t] += q1 * ToFloat(k[2 * t + 1]);
        }
        k += 2 * kBlockTokens;
      }
      std::copy(sums.begin(), sums.end(),
                scores + (row + r) * kMaxRangeTokens + (block + b) * kBlockTokens);
    }
  }
}

template <int kRows, int kVectors>
inline void WeighValues(const AttendRangeArgs& args, int row, int dim, int blocks,
                        const Bf16* weights) {
  constexpr int kDims = 16 * kVectors;
  for (int r = 0; r < kRows; ++r) {
    std::array<float, kDims> sums{};
    for (int block = 0; block < blocks; ++block) {
      const Bf16* v = args.v_blocks[block] + 2 * dim;
      const Bf16* w = weights + (row + r) * kMaxRangeTokens + block * kBlockTokens;
      for (int pair = 0; pair < kBlockTokens / 2; ++pair) {
        const float w0 = ToFloat(w[2 * pair]);
        const float w1 = ToFloat(w[2 * pair + 1]);
        for (int d = 0; d < kDims; ++d) {
          sums[d] += w0 * ToFloat(v[2 * d]);
          sums[d] += w1 * ToFloat(v[2 * d + 1]);
        }
        v += 2 * args.head_dim;
      }
    }
    std::copy(sums.begin(), sums.end(),
              args.acc + static_cast<int64_t>(row + r) * args.head_dim + dim);
  }
}

/// Turns a row's scores into weights exp2(score - max), in fp32 for their sum and bf16 for the
/// values.
inline void SoftmaxRow(const AttendRangeArgs& args, int row, int padded_keys, float* scores,
                       Bf16* weights) {
  const int visible = std::min(args.visible[row], args.keys);
  std::array<float, kLanes> lanes;
  lanes.fill(-std::numeric_limits<float>::infinity());
  int t = 0;
  for (; t + kLanes <= visible; t += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float s = scores[t + lane] * args.scale;
      scores[t + lane] = s;
      lanes[lane] = s > lanes[lane] ? s : lanes[lane];
    }
  }
  for (int lane = 0; t + lane < visible; ++lane) {
    const float s = scores[t + lane] * args.scale;
    scores[t + lane] = s;
    lanes[lane] = s > lanes[lane] ? s : lanes[lane];
  }
  const float max = *std::max_element(lanes.begin(), lanes.end());
  for (int i = std::max(visible, 0); i < padded_keys; ++i) {
    scores[i] = -std::numeric_limits<float>::infinity();
  }
  std::array<float, kLanes> sums{};
  // A row that sees nothing keeps weights of zero: exp2(-inf - 0) rather than exp2(-inf + inf).
  const float reference = visible > 0 ? max : 0.0F;
  for (t = 0; t < padded_keys; t += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float w = Exp2(scores[t + lane] - reference);
      sums[lane] += w;
      weights[t + lane] = ToBf16(w);
    }
  }
  args.max[row] = max;
  args.sum[row] = SumLanes(sums);
}

#endif

#if !defined(DECANT_AMX)

template <int kRows>
void ScoreRows(const AttendRangeArgs& args, int row, int blocks, float* scores) {
  // About twelve accumulators hide the latency of the dot product.
  constexpr int kWide = kRows <= 3 ? 4 : 2;
  int block = 0;
  for (; block + kWide <= blocks; block += kWide)
    Scores<kRows, kWide>(args, row, block, blocks, scores);
  for (; block < blocks; ++block) Scores<kRows, 1>(args, row, block, blocks, scores);
}

template <int kRows>
void WeighRows(const AttendRangeArgs& args, int row, int blocks, const Bf16* weights) {
  int dim = 0;
  for (; dim + 64 <= args.head_dim; dim += 64) {
    WeighValues<kRows, 4>(args, row, dim, blocks, weights);
  }
  for (; dim < args.head_dim; dim += 32) WeighValues<kRows, 2>(args, row, dim, blocks, weights);
}

template <typename Body>
void ForRowGroups(int rows, Body&& body) {
  int row = 0;
  for (; row + 6 <= rows; row += 6) body(std::integral_constant<int, 6>{}, row);
  switch (rows - row) {
    case 1:
      return body(std::integral_constant<int, 1>{}, row);
    case 2:
      return body(std::integral_constant<int, 2>{}, row);
    case 3:
      return body(std::integral_constant<int, 3>{}, row);
    case 4:
      return body(std::integral_constant<int, 4>{}, row);
    case 5:
      return body(std::integral_constant<int, 5>{}, row);
    default:
      return;
  }
}

void ScoreAll(const AttendRangeArgs& args, int blocks, float* scores) {
  ForRowGroups(args.rows, [&](auto rows, int row) { ScoreRows<rows>(args, row, blocks, scores); });
}

void WeighAll(const AttendRangeArgs& args, int blocks, const Bf16* weights) {
  ForRowGroups(args.rows, [&](auto rows, int row) { WeighRows<rows>(args, row, blocks, weights); });
}

#endif

void AttendRange(const AttendRangeArgs& args) {
  const int blocks = (args.keys + kBlockTokens - 1) / kBlockTokens;
  float* scores = args.scratch;
  auto* weights =
      reinterpret_cast<Bf16*>(args.scratch + static_cast<int64_t>(kMaxRangeRows) * kMaxRangeTokens);
  ScoreAll(args, blocks, scores);
  for (int row = 0; row < args.rows; ++row) {
    SoftmaxRow(args, row, blocks * kBlockTokens, scores + row * kMaxRangeTokens,
               weights + row * kMaxRangeTokens);
  }
  WeighAll(args, blocks, weights);
}

void MergePartial(float* max, float* sum, float* __restrict acc, float range_max, float range_sum,
                  const float* __restrict range_acc, int32_t head_dim) {
  const float merged = range_max > *max ? range_max : *max;
  const float old_factor = Exp2(*max - merged);
  const float range_factor = Exp2(range_max - merged);
  for (int32_t d = 0; d < head_dim; ++d) {
    acc[d] = acc[d] * old_factor + range_acc[d] * range_factor;
  }
  *sum = *sum * old_factor + range_sum * range_factor;
  *max = merged;
}

#include "ops/cpu/int8_kernels.inc"

}  // namespace

const CpuKernels DECANT_KERNEL_LEVEL = {
    .name = DECANT_KERNEL_NAME,
    .rms_norm_bf16 = RmsNorm<Bf16>,
    .rms_norm_f32 = RmsNorm<float>,
    .add = Add,
    .silu_mul_bf16 = SiluMul<Bf16>,
    .silu_mul_f32 = SiluMul<float>,
    .rope = Rope,
    .to_bf16 = ConvertToBf16,
    .attend_range = AttendRange,
    .compact_tokens = kCompactTokens,
    .compact_multiply_4 = kCompactMultiply4,
    .compact_multiply_8 = kCompactMultiply8,
    .quantize_bf16 = Quantize<Bf16>,
    .quantize_f32 = Quantize<float>,
    .int8_multiply_4 = Int8Multiply<4>,
    .int8_multiply_8 = Int8Multiply<8>,
    .merge_partial = MergePartial,
};

}  // namespace decant
