#pragma once

#include <math.h>

#include <cfloat>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

/// How the next token of a row is drawn on a device: the sampler of runtime/sampler.h, by one block
/// of threads. The code is generic over the block, so that tests run it on the host, with threads
/// for threads.
///
/// A Block has
///   thread(), threads()        this thread, and how many there are
///   Sync()                     waits for all; what they wrote can be read
///   Max(float)                 of all threads, for all threads; so do Sum and Count
///   Sum(double)                in an order that depends on the number of threads only
///   Count(bool)                how many are true
///   ExclusiveCount(bool, int32_t* all)   how many are true in threads before this one, and in all
///   scratch()                  double[threads()], shared
///   token()                    int32_t&, shared
/// All threads call them together.

#ifdef __CUDACC__
#define DECANT_HOST_DEVICE __host__ __device__
#else
#define DECANT_HOST_DEVICE
#endif

namespace decant {

/// Stands for the token of a row from whose logits none can be drawn.
constexpr int32_t kNoDraw = -1;

/// What is added to a token's logit.
struct DrawBias {
  int32_t token;
  float bias;
};

/// One row's draw. Lists are [first, first + count) of arrays that the rows of a step share.
struct RowDraw {
  int32_t slot;       ///< Among the engine's rows.
  float temperature;  ///< 0: greedy.
  int32_t top_k;      ///< 0: all.
  float top_p;
  float min_p;
  double uniform;  ///< The row's random number, in [0, 1).
  float repetition_penalty;
  float frequency_penalty;
  float presence_penalty;
  bool penalizes;  ///< Whether the row's counts are kept and looked at.
  int32_t first_bias;
  int32_t biases;
  int32_t first_banned;  ///< Tokens that must not be drawn.
  int32_t banned;

  DECANT_HOST_DEVICE bool changes_logits() const { return penalizes || biases > 0 || banned > 0; }
};

/// The draws of one step's rows, in host memory.
struct StepDraws {
  std::vector<RowDraw> rows{};
  std::vector<DrawBias> biases{};
  std::vector<int32_t> banned{};
  /// Rows that begin to count tokens with this step's draw, and their prompts.
  struct Start {
    int32_t slot = 0;
    std::span<const int32_t> prompt{};
  };
  std::vector<Start> starts{};

  void Clear() {
    rows.clear();
    biases.clear();
    banned.clear();
    starts.clear();
  }
};

/// A token that may be drawn, and its logit or its probability relative to the most likely one's.
struct DrawCandidate {
  float value;
  int32_t token;
};

/// How often a row has a token: 0: not at all; else one more than it was generated.
using TokenCount = int32_t;

namespace draw {

/// Tells the order of floats that are no NaN by unsigned integers.
DECANT_HOST_DEVICE inline uint32_t OrderedBits(float value) {
  uint32_t bits = 0;
  memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

DECANT_HOST_DEVICE inline float FromOrderedBits(uint32_t ordered) {
  const uint32_t bits = (ordered & 0x80000000U) != 0 ? ordered & 0x7fffffffU : ~ordered;
  float value = 0;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

/// Rounded, and no part of a fused multiply-add: as on the host.
DECANT_HOST_DEVICE inline float Product(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

/// Whether a token can be drawn: no logit is NaN or +infinity.
template <typename Block>
DECANT_HOST_DEVICE bool CanDraw(Block& block, const float* logits, int32_t vocab) {
  bool good = true;
  for (int32_t i = block.thread(); i < vocab; i += block.threads()) {
    good = good && logits[i] < INFINITY;
  }
  return block.Count(!good) == 0;
}

/// -inf where all are NaN.
template <typename Block>
DECANT_HOST_DEVICE float Largest(Block& block, const float* logits, int32_t vocab) {
  float largest = -INFINITY;
  for (int32_t i = block.thread(); i < vocab; i += block.threads()) {
    if (logits[i] > largest) largest = logits[i];
  }
  return block.Max(largest);
}

/// Writes what `make(i, &candidate)` accepts of i in [0, n) to `list`, in order; returns how many.
/// `make` may read `list` at i.
template <typename Block, typename Make>
DECANT_HOST_DEVICE int32_t Compact(Block& block, int32_t n, DrawCandidate* list, Make&& make) {
  int32_t kept = 0;
  for (int32_t first = 0; first < n; first += block.threads()) {
    const int32_t i = first + block.thread();
    DrawCandidate candidate{};
    const bool keep = i < n && make(i, &candidate);
    int32_t all = 0;
    const int32_t before = block.ExclusiveCount(keep, &all);  // all have read by then
    if (keep) list[kept + before] = candidate;
    kept += all;
  }
  block.Sync();
  return kept;
}

/// The largest ordered bits b for which `reached(b)` holds; it holds for 0, and for no b above one
/// for which it does not.
template <typename Reached>
DECANT_HOST_DEVICE uint32_t LastReached(Reached&& reached) {
  uint32_t bits = 0;
  for (int bit = 31; bit >= 0; --bit) {
    const uint32_t next = bits | (uint32_t{1} << bit);
    if (reached(next)) bits = next;
  }
  return bits;
}

/// How many of `n` candidates have at least this value.
template <typename Block>
DECANT_HOST_DEVICE int32_t CountFrom(Block& block, const DrawCandidate* list, int32_t n,
                                     uint32_t bits) {
  int32_t count = 0;
  for (int32_t first = 0; first < n; first += block.threads()) {
    const int32_t i = first + block.thread();
    count += block.Count(i < n && OrderedBits(list[i].value) >= bits);
  }
  return count;
}

/// The k-th largest logit, k >= 1; -inf where there are fewer than k above it. Uses `list`.
template <typename Block>
DECANT_HOST_DEVICE float KthLargest(Block& block, const float* logits, int32_t vocab, int32_t k,
                                    DrawCandidate* list) {
  // The largest logits of k threads are k logits: the k-th largest of all is at least the smallest
  // of these. Few are, so that what follows has little to do.
  float bound = -INFINITY;
  if (k <= block.threads()) {
    float mine = -INFINITY;
    for (int32_t i = block.thread(); i < vocab; i += block.threads()) {
      if (logits[i] > mine) mine = logits[i];
    }
    bound = FromOrderedBits(
        LastReached([&](uint32_t bits) { return block.Count(OrderedBits(mine) >= bits) >= k; }));
  }
  const int32_t n = Compact(block, vocab, list, [&](int32_t i, DrawCandidate* candidate) {
    *candidate = {logits[i], i};
    return logits[i] > -INFINITY && logits[i] >= bound;
  });
  if (n < k) return -INFINITY;
  return FromOrderedBits(
      LastReached([&](uint32_t bits) { return CountFrom(block, list, n, bits) >= k; }));
}

/// The values of the candidates that `accept` takes, added up.
template <typename Block, typename Accept>
DECANT_HOST_DEVICE double SumOf(Block& block, const DrawCandidate* list, int32_t n,
                                Accept&& accept) {
  double sum = 0;
  for (int32_t i = block.thread(); i < n; i += block.threads()) {
    if (accept(list[i].value)) sum += list[i].value;
  }
  return block.Sum(sum);
}

/// Keeps the smallest number of most likely candidates whose weights reach top_p of the total;
/// smaller ids first among equals.
template <typename Block>
DECANT_HOST_DEVICE int32_t KeepTopP(Block& block, DrawCandidate* list, int32_t n, float top_p) {
  const double total = SumOf(block, list, n, [](float) { return true; });
  const double target = top_p * total;
  const float last = FromOrderedBits(LastReached([&](uint32_t bits) {
    return SumOf(block, list, n, [&](float weight) { return OrderedBits(weight) >= bits; }) >=
           target;
  }));
  const double above = SumOf(block, list, n, [&](float weight) { return weight > last; });
  const double wanted = ceil((target - above) / last);
  // At least one: a target of nearly nothing keeps the most likely candidate.
  const int32_t equals = wanted < 1 ? 1 : wanted < n ? static_cast<int32_t>(wanted) : n;
  int32_t kept = 0;
  int32_t equal = 0;
  for (int32_t first = 0; first < n; first += block.threads()) {
    const int32_t i = first + block.thread();
    const DrawCandidate candidate = i < n ? list[i] : DrawCandidate{-1, 0};
    int32_t all_equal = 0;
    const int32_t before_equal = equal + block.ExclusiveCount(candidate.value == last, &all_equal);
    const bool keep = candidate.value > last || (candidate.value == last && before_equal < equals);
    int32_t all = 0;
    const int32_t before = block.ExclusiveCount(keep, &all);
    if (keep) list[kept + before] = candidate;
    kept += all;
    equal += all_equal;
  }
  block.Sync();
  return kept;
}

/// The candidate at which the weights, added up in order, pass uniform times their total.
template <typename Block>
DECANT_HOST_DEVICE int32_t Choose(Block& block, const DrawCandidate* list, int32_t n,
                                  double uniform) {
  const int32_t share = (n + block.threads() - 1) / block.threads();
  const int32_t first = share * block.thread() < n ? share * block.thread() : n;
  const int32_t end = first + share < n ? first + share : n;
  double sum = 0;
  for (int32_t i = first; i < end; ++i) sum += list[i].value;
  block.scratch()[block.thread()] = sum;
  block.Sync();
  if (block.thread() == 0) {
    double total = 0;
    for (int32_t t = 0; t * share < n; ++t) total += block.scratch()[t];
    double remaining = uniform * total;
    int32_t t = 0;
    while ((t + 1) * share < n && remaining >= block.scratch()[t]) {
      remaining -= block.scratch()[t];
      ++t;
    }
    int32_t i = t * share;
    while (i + 1 < n) {  // the last one, should rounding leave something
      remaining -= list[i].value;
      if (remaining < 0) break;
      ++i;
    }
    block.token() = list[i].token;
  }
  block.Sync();
  return block.token();
}

/// The first of the largest logits; 0 where none is above -inf.
template <typename Block>
DECANT_HOST_DEVICE int32_t FirstLargest(Block& block, const float* logits, int32_t vocab) {
  const float largest = Largest(block, logits, vocab);
  if (largest == -INFINITY) return 0;
  int32_t mine = vocab;
  for (int32_t i = block.thread(); i < vocab && mine == vocab; i += block.threads()) {
    if (logits[i] == largest) mine = i;
  }
  // Exact in fp32: no vocabulary has 2^24 tokens.
  return static_cast<int32_t>(-block.Max(-static_cast<float>(mine)));
}

}  // namespace draw

/// out = a row's logits with bias, penalties and bans: ProcessLogits of runtime/logit_processors.h,
/// to the bit.
template <typename Block>
DECANT_HOST_DEVICE void ProcessRow(Block& block, const RowDraw& row, const float* logits,
                                   int32_t vocab, const DrawBias* biases, const int32_t* banned,
                                   const TokenCount* counts, float* out) {
  for (int32_t i = block.thread(); i < vocab; i += block.threads()) out[i] = logits[i];
  block.Sync();
  for (int32_t i = block.thread(); i < row.biases; i += block.threads()) {
    const DrawBias& bias = biases[row.first_bias + i];
    if (bias.token >= 0 && bias.token < vocab) out[bias.token] += bias.bias;
  }
  block.Sync();
  if (row.penalizes) {
    for (int32_t i = block.thread(); i < vocab; i += block.threads()) {
      const TokenCount count = counts[i];
      if (count == 0) continue;
      float logit = out[i];
      logit =
          logit < 0 ? draw::Product(logit, row.repetition_penalty) : logit / row.repetition_penalty;
      if (count > 1) {
        logit -= draw::Product(row.frequency_penalty, static_cast<float>(count - 1));
        logit -= row.presence_penalty;
      }
      out[i] = logit;
    }
    block.Sync();
  }
  for (int32_t i = block.thread(); i < row.banned; i += block.threads()) {
    const int32_t token = banned[row.first_banned + i];
    if (token >= 0 && token < vocab) out[token] = -INFINITY;
  }
  block.Sync();
}

/// The row's token, the same for all threads. list: [vocab], overwritten.
template <typename Block>
DECANT_HOST_DEVICE int32_t DrawToken(Block& block, const RowDraw& row, const float* logits,
                                     int32_t vocab, DrawCandidate* list) {
  if (row.temperature == 0) return draw::FirstLargest(block, logits, vocab);
  const float largest = draw::Largest(block, logits, vocab);
  if (largest == -INFINITY) return 0;
  // Bias and penalties may overflow; infinities have no differences.
  const double max = fminf(largest, FLT_MAX);
  const float threshold = row.top_k > 0 && row.top_k < vocab
                              ? draw::KthLargest(block, logits, vocab, row.top_k, list)
                              : -INFINITY;
  int32_t n = draw::Compact(block, vocab, list, [&](int32_t i, DrawCandidate* candidate) {
    if (!(logits[i] >= threshold)) return false;
    const double difference = fminf(logits[i], FLT_MAX) - max;
    *candidate = {static_cast<float>(exp(difference / row.temperature)), i};
    return candidate->value > 0;
  });
  if (row.top_p < 1) n = draw::KeepTopP(block, list, n, row.top_p);
  if (row.min_p > 0) {
    n = draw::Compact(block, n, list, [&](int32_t i, DrawCandidate* candidate) {
      *candidate = list[i];
      return candidate->value >= row.min_p;
    });
  }
  return draw::Choose(block, list, n, row.uniform);
}

}  // namespace decant
