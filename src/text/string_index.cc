#include "text/string_index.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {

namespace {

uint64_t Load(const char* bytes, size_t size) {
  uint64_t word = 0;
  if (size > 0) std::memcpy(&word, bytes, size);  // an empty view may have no bytes at all
  return word;
}

/// The product's halves, folded: what one multiplication mixes best (as wyhash does).
uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

uint64_t HashOf(std::string_view key) {
  constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;
  constexpr uint64_t kOther = 0xd6e8feb86659fd93;
  uint64_t hash = key.size() * kOdd;
  const char* bytes = key.data();
  size_t left = key.size();
  for (; left > 8; left -= 8, bytes += 8) hash = Mix(hash ^ Load(bytes, 8), kOdd);
  return Mix(hash ^ Load(bytes, left), kOther);
}

StringIndex::StringIndex(size_t count) : slots_(std::bit_ceil(std::max<size_t>(2 * count, 2))) {}

size_t StringIndex::SlotOf(std::string_view key, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot].data != nullptr &&
         std::string_view(slots_[slot].data, slots_[slot].size) != key) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

int32_t StringIndex::Add(std::string_view key, int32_t value) {
  DECANT_CHECK(key.data() != nullptr);
  Slot& slot = slots_[SlotOf(key, HashOf(key))];
  if (slot.data == nullptr) slot = {key.data(), Narrow<uint32_t>(key.size()), value};
  return slot.value;
}

std::optional<int32_t> StringIndex::Find(std::string_view key, uint64_t hash) const {
  const Slot& slot = slots_[SlotOf(key, hash)];
  if (slot.data == nullptr) return std::nullopt;
  return slot.value;
}

}  // namespace decant
