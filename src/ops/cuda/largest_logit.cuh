#pragma once

#include <cmath>
#include <cstdint>

namespace decant {

/// The first largest of some logits. What is not above -inf never enters, nor does NaN, which
/// compares false.
struct LargestLogit {
  float logit = -INFINITY;
  int32_t token = 0;

  __device__ void Take(float other, int32_t other_token) {
    const bool larger = other > logit || (other == logit && other_token < token);
    logit = larger ? other : logit;
    token = larger ? other_token : token;
  }
  /// The same of a token behind the one that is held: of equals that one stays.
  __device__ void TakeLater(float other, int32_t other_token) {
    const bool larger = other > logit;
    logit = larger ? other : logit;
    token = larger ? other_token : token;
  }
  /// Takes what the lane has whose number differs in the bits of `mask`. All lanes of a warp call
  /// it.
  __device__ void TakeFromLane(int mask) {
    const float other = __shfl_xor_sync(0xffffffffU, logit, mask);
    const int32_t other_token = __shfl_xor_sync(0xffffffffU, token, mask);
    Take(other, other_token);
  }
};

/// Whether no token can be drawn from a row with this logit: NaN or +infinity.
__device__ inline bool IsUndrawable(float logit) { return !(logit < INFINITY); }

}  // namespace decant
