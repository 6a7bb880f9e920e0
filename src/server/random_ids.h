#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/random.h"

namespace decant {

/// Names and seeds that differ from those of every other process and call. Thread-safe.
class RandomIds {
 public:
  RandomIds();

  /// `prefix` and 32 hexadecimal digits: "chatcmpl-0123…".
  std::string Next(std::string_view prefix);

  /// 64 uniform bits.
  uint64_t Bits() { return rng_.Bits(counter_++); }

 private:
  const CounterRng rng_;
  std::atomic<uint64_t> counter_ = 0;
};

}  // namespace decant
