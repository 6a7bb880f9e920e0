#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {
namespace {

/// Up to this many symbols, looking through all pairs is faster than keeping a queue of them.
constexpr size_t kShort = 24;
constexpr uint32_t kNoRank = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

uint64_t PairOf(int32_t left, int32_t right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
}

/// A symbol of a long word: a list through an array. A merged-away symbol has id -1.
struct Link {
  int32_t id = 0;
  uint32_t previous = kNone;
  uint32_t next = kNone;
};

/// A merge that could be made; stale once either side has changed.
struct Candidate {
  uint64_t order = 0;  ///< Rank, then position.
  uint64_t pair = 0;
  int32_t merged = 0;

  uint32_t position() const { return static_cast<uint32_t>(order); }

  /// Orders a std::priority_queue so that the lowest rank, then the leftmost, is on top.
  bool operator<(const Candidate& other) const { return order > other.order; }
};

}  // namespace

BpeMerger::BpeMerger(size_t merges) {
  const size_t slots = std::bit_ceil(std::max<size_t>(2 * merges, 2));
  entries_.resize(slots);
  shift_ = 64 - std::countr_zero(slots);
}

size_t BpeMerger::SlotOf(uint64_t pair) const {
  size_t slot = static_cast<size_t>((pair * 0x9e3779b97f4a7c15) >> shift_);
  while (entries_[slot].pair != kEmpty && entries_[slot].pair != pair) {
    slot = (slot + 1) & (entries_.size() - 1);
  }
  return slot;
}

bool BpeMerger::Add(int32_t left, int32_t right, uint32_t rank, int32_t merged) {
  DECANT_CHECK(left >= 0 && right >= 0 && merged >= 0 && rank != kNoRank);
  Entry& entry = entries_[SlotOf(PairOf(left, right))];
  if (entry.pair != kEmpty) return false;
  entry = {PairOf(left, right), rank, merged};
  return true;
}

const BpeMerger::Entry* BpeMerger::Find(int32_t left, int32_t right) const {
  const Entry& entry = entries_[SlotOf(PairOf(left, right))];
  return entry.pair == kEmpty ? nullptr : &entry;
}

void BpeMerger::Merge(std::vector<int32_t>& symbols) const {
  if (symbols.size() <= kShort) {
    MergeShort(symbols);
  } else {
    MergeLong(symbols);
  }
}

void BpeMerger::MergeShort(std::vector<int32_t>& symbols) const {
  // Merge i would join symbols i and i + 1.
  std::array<Entry, kShort + 1> merges;
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) {
    const Entry* entry = Find(symbols[i], symbols[i + 1]);
    merges[i] = entry == nullptr ? Entry{.rank = kNoRank} : *entry;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].merged;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      merges[i] = merges[i + 1];
    }
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  symbols.resize(count);
}

void BpeMerger::MergeLong(std::vector<int32_t>& symbols) const {
  const auto count = Narrow<uint32_t>(symbols.size());
  std::vector<Link> links(count);
  for (uint32_t i = 0; i < count; ++i) {
    links[i] = {symbols[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  }
  const auto candidate_at = [&](uint32_t position) -> std::optional<Candidate> {
    const uint32_t next = links[position].next;
    if (next == kNone) return std::nullopt;
    const Entry* entry = Find(links[position].id, links[next].id);
    if (entry == nullptr) return std::nullopt;
    return Candidate{(uint64_t{entry->rank} << 32) | position, entry->pair, entry->merged};
  };
  std::vector<Candidate> first;
  first.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    if (const auto candidate = candidate_at(i)) first.push_back(*candidate);
  }
  std::priority_queue<Candidate> queue({}, std::move(first));
  const auto offer = [&](uint32_t position) {
    if (const auto candidate = candidate_at(position)) queue.push(*candidate);
  };
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Link& left = links[top.position()];
    if (left.id < 0 || left.next == kNone) continue;
    Link& right = links[left.next];
    if (PairOf(left.id, right.id) != top.pair) continue;
    left.id = top.merged;
    left.next = right.next;
    if (left.next != kNone) links[left.next].previous = top.position();
    right.id = -1;
    if (left.previous != kNone) offer(left.previous);
    offer(top.position());
  }
  symbols.clear();
  for (uint32_t i = 0; i != kNone; i = links[i].next) symbols.push_back(links[i].id);
}

}  // namespace decant
