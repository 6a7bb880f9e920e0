#pragma once

#include <cstdint>

namespace decant {

/// Counter-based random numbers: Bits(key, counter) depends on its arguments only, so the n-th draw
/// of a request is the same whatever else runs. The mixing function is SplitMix64's finaliser
/// applied twice (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
/// 2014).
__extension__ using uint128 = unsigned __int128;

class CounterRng {
 public:
  explicit constexpr CounterRng(uint64_t key) : key_(Mix(key + kGamma)) {}

  /// 64 uniform bits for draw number `counter`.
  constexpr uint64_t Bits(uint64_t counter) const {
    return Mix((key_ ^ Mix(counter + kCounterGamma)) + kGamma);
  }

  /// Uniform in [0, 1) with 53 bits.
  constexpr double Uniform(uint64_t counter) const {
    return static_cast<double>(Bits(counter) >> 11) * 0x1.0p-53;
  }

  /// Uniform in [0, bound) by multiplication (bias under bound / 2^64); bound > 0.
  constexpr uint64_t Below(uint64_t counter, uint64_t bound) const {
    return static_cast<uint64_t>((static_cast<uint128>(Bits(counter)) * bound) >> 64);
  }

 private:
  static constexpr uint64_t kGamma = 0x9e3779b97f4a7c15;
  // Another constant than the key's: a key and an equal counter must not cancel out.
  static constexpr uint64_t kCounterGamma = 0xc4ceb9fe1a85ec53;

  static constexpr uint64_t Mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t key_;
};

}  // namespace decant
