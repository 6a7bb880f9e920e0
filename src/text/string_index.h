#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace decant {

/// A hash of `key` for tables in memory: fast on keys of some bytes.
uint64_t HashOf(std::string_view key);

/// Numbers by string, for hundreds of thousands of strings that live elsewhere: open addressing in
/// one array, where std::unordered_map would allocate and chase a node for each.
class StringIndex {
 public:
  /// Room for `count` strings; more may not be added.
  explicit StringIndex(size_t count = 0);

  /// Adds `key`, whose bytes must outlive the index, unless it is there already. Returns the number
  /// that `key` has now: `value`, or the one that it had.
  int32_t Add(std::string_view key, int32_t value);

  std::optional<int32_t> Find(std::string_view key) const { return Find(key, HashOf(key)); }

  /// The same for a caller that has HashOf(key) already.
  std::optional<int32_t> Find(std::string_view key, uint64_t hash) const;

 private:
  struct Slot {
    const char* data = nullptr;  ///< Null: free.
    uint32_t size = 0;
    int32_t value = 0;
  };

  size_t SlotOf(std::string_view key, uint64_t hash) const;

  std::vector<Slot> slots_;  ///< A power of two, at most half full.
};

}  // namespace decant
