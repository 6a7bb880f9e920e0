#include "server/random_ids.h"

#include <fmt/format.h>

#include <random>

namespace decant {
namespace {

uint64_t RandomKey() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace

RandomIds::RandomIds() : rng_(RandomKey()) {}

std::string RandomIds::Next(std::string_view prefix) {
  const uint64_t high = Bits();
  return fmt::format("{}{:016x}{:016x}", prefix, high, Bits());
}

}  // namespace decant
