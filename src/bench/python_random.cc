#include "bench/python_random.h"

#include <bit>

#include "base/check.h"

namespace decant {

PythonRandom::PythonRandom(uint64_t seed) {
  const std::array<uint32_t, 2> words = {static_cast<uint32_t>(seed),
                                         static_cast<uint32_t>(seed >> 32)};
  InitArray(std::span(words).first(words[1] == 0 ? 1 : 2));
}

void PythonRandom::InitOne(uint32_t seed) {
  state_[0] = seed;
  for (uint32_t i = 1; i < kWords; ++i) {
    state_[i] = 1812433253U * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }
}

void PythonRandom::InitArray(std::span<const uint32_t> key) {
  InitOne(19650218U);
  size_t i = 1;
  const auto step = [&](uint32_t factor) {
    const uint32_t before = state_[i - 1];
    return state_[i] ^ ((before ^ (before >> 30)) * factor);
  };
  const auto advance = [&] {
    if (++i < kWords) return;
    state_[0] = state_[kWords - 1];
    i = 1;
  };
  for (size_t n = 0; n < kWords; ++n) {
    const size_t j = n % key.size();
    state_[i] = step(1664525U) + key[j] + static_cast<uint32_t>(j);
    advance();
  }
  for (size_t n = 1; n < kWords; ++n) {
    state_[i] = step(1566083941U) - static_cast<uint32_t>(i);
    advance();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::Refill() {
  constexpr size_t kMiddle = 397;
  for (size_t i = 0; i < kWords; ++i) {
    const uint32_t mixed = (state_[i] & 0x80000000U) | (state_[(i + 1) % kWords] & 0x7fffffffU);
    state_[i] = state_[(i + kMiddle) % kWords] ^ (mixed >> 1) ^ (mixed % 2 * 0x9908b0dfU);
  }
  next_ = 0;
}

uint32_t PythonRandom::Bits() {
  if (next_ == kWords) Refill();
  uint32_t bits = state_[next_++];
  bits ^= bits >> 11;
  bits ^= (bits << 7) & 0x9d2c5680U;
  bits ^= (bits << 15) & 0xefc60000U;
  return bits ^ (bits >> 18);
}

uint32_t PythonRandom::Below(uint32_t bound) {
  DECANT_CHECK(bound > 0, "no number lies below zero");
  const int width = std::bit_width(bound);
  uint32_t value = bound;
  while (value >= bound) value = Bits() >> (32 - width);
  return value;
}

}  // namespace decant
