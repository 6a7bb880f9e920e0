#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace decant {

/// Byte-pair merges over token ids. Of all neighbours that may merge, the pair of lowest rank does,
/// the leftmost first, until none may (Sennrich, Haddow, Birch, ACL 2016). Pairs may share a rank.
/// Thread-safe once built: Merge is const and keeps no state.
class BpeMerger {
 public:
  /// Room for `merges` of them without growing.
  explicit BpeMerger(size_t merges);

  /// Lets `left` and `right` merge to `merged`. Returns false, changing
  /// nothing, if the pair has a merge already.
  bool Add(int32_t left, int32_t right, uint32_t rank, int32_t merged);

  /// Merges `symbols` in place. Takes O(n log n) for n symbols.
  void Merge(std::vector<int32_t>& symbols) const;

 private:
  struct Entry {
    uint64_t pair = kEmpty;
    uint32_t rank = 0;
    int32_t merged = 0;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};  // No pair: ids are not negative.

  const Entry* Find(int32_t left, int32_t right) const;
  size_t SlotOf(uint64_t pair) const;
  void MergeShort(std::vector<int32_t>& symbols) const;
  void MergeLong(std::vector<int32_t>& symbols) const;

  std::vector<Entry> entries_;  ///< Open addressing; a power of two, at most half full.
  int shift_ = 0;               ///< 64 - log2(entries_.size()).
};

}  // namespace decant
