#include "text/string_index.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {

StringIndex::StringIndex(size_t count) : slots_(std::bit_ceil(std::max<size_t>(2 * count, 2))) {}

size_t StringIndex::SlotOf(std::string_view key) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>{}(key)&mask;
  while (slots_[slot].data != nullptr &&
         std::string_view(slots_[slot].data, slots_[slot].size) != key) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

int32_t StringIndex::Add(std::string_view key, int32_t value) {
  DECANT_CHECK(key.data() != nullptr);
  Slot& slot = slots_[SlotOf(key)];
  if (slot.data == nullptr) slot = {key.data(), Narrow<uint32_t>(key.size()), value};
  return slot.value;
}

std::optional<int32_t> StringIndex::Find(std::string_view key) const {
  const Slot& slot = slots_[SlotOf(key)];
  if (slot.data == nullptr) return std::nullopt;
  return slot.value;
}

}  // namespace decant
