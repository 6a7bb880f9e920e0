#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace decant {

/// The draws of Python's random.Random(seed), number for number, so that a draw that somebody
/// published as Python can be made again: the Mersenne Twister MT19937 (Matsumoto, Nishimura, ACM
/// TOMACS 8, 1998), seeded by its init_by_array with the seed's 32-bit words, lowest first; draws
/// below a bound by rejection (CPython, Modules/_randommodule.c and Lib/random.py, since 3.2).
class PythonRandom {
 public:
  explicit PythonRandom(uint64_t seed);

  /// getrandbits(32).
  uint32_t Bits();

  /// random._randbelow(bound): uniform in [0, bound); bound > 0.
  uint32_t Below(uint32_t bound);

  /// randint(least, most): uniform with both ends.
  int32_t Int(int32_t least, int32_t most) {
    const uint32_t width = static_cast<uint32_t>(most) - static_cast<uint32_t>(least) + 1;
    return least + static_cast<int32_t>(Below(width));
  }

  /// choice(values), of a list that is not empty.
  int32_t Choice(std::span<const int32_t> values) {
    return values[Below(static_cast<uint32_t>(values.size()))];
  }

 private:
  static constexpr size_t kWords = 624;

  void InitOne(uint32_t seed);
  void InitArray(std::span<const uint32_t> key);
  void Refill();

  std::array<uint32_t, kWords> state_{};
  size_t next_ = kWords;
};

}  // namespace decant
