#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/status.h"

namespace decant {

class PagePool;

/// A reservation: pages that only the leases of the same group hold too, until the lease dies.
/// Move-only.
class PageLease {
 public:
  PageLease() = default;  ///< Holds nothing, like a lease that was moved from.
  PageLease(PageLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), held_(other.held_) {}
  PageLease& operator=(PageLease&& other) noexcept;
  PageLease(const PageLease&) = delete;
  PageLease& operator=(const PageLease&) = delete;
  ~PageLease() { Release(); }

  /// The pages in order of position. The span stays valid, wherever the lease moves, until the
  /// lease lets go of them.
  std::span<const int32_t> pages() const {
    return pool_ == nullptr ? std::span<const int32_t>() : *held_;
  }

  /// Lets go of the pages now: those that nobody else holds go back. The lease then holds nothing.
  void Release();

 private:
  friend class PagePool;
  using Held = std::list<std::vector<int32_t>>::iterator;
  PageLease(PagePool* pool, Held held) : pool_(pool), held_(held) {}

  PagePool* pool_ = nullptr;
  Held held_{};  ///< In the pool's list of leases.
};

/// Leases that begin alike: `leases` >= 1 of them for `tokens` >= 1 positions each, which are the
/// same in the first `shared_tokens` (0 to `tokens`).
struct PageGroup {
  int32_t tokens = 1;
  int32_t shared_tokens = 0;
  int32_t leases = 1;
};

/// The largest page, in slots.
inline constexpr int32_t kMaxPageSize = 1 << 16;

/// Any page size in [1, kMaxPageSize] will do for the pool, powers of two or not; an attention
/// kernel that wants a certain multiple refuses the others itself.
Status ValidatePageSize(int32_t page_size);

/// A valid page size, at least one page, and slot numbers that fit an int32_t.
Status ValidatePoolShape(int32_t num_pages, int32_t page_size);

/// Hands out the KV cache's pages by number; knows nothing of the memory behind them. Free pages
/// are reused last in, first out: the page that was freed last is the likeliest to be in a
/// processor's cache, and a page read after it was freed shows its new content at once instead of
/// hiding the fault until the pool wraps around. One thread at a time. Outlives its leases.
class PagePool {
 public:
  /// Called with the pages that come back when their last lease lets go, before anybody can have
  /// them again.
  using FreeObserver = std::function<void(std::span<const int32_t>)>;

  /// The shape must be one that ValidatePoolShape accepts.
  PagePool(int32_t num_pages, int32_t page_size);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  /// Pages for `tokens` >= 1 positions, rounded up to whole pages; all of them, or nothing when
  /// fewer are free.
  std::optional<PageLease> Reserve(int32_t tokens);

  /// The leases of a group. They share the pages that lie wholly within the shared positions; what
  /// follows is each lease's own, a page that is shared in part included. All of them, or nothing
  /// when fewer pages are free than PagesFor says.
  std::optional<std::vector<PageLease>> ReserveGroup(const PageGroup& group);

  /// How many pages `tokens` >= 0 positions take.
  int32_t PagesFor(int64_t tokens) const;

  /// How many pages a group takes: the shared ones once, the others for each lease.
  int64_t PagesFor(const PageGroup& group) const;

  /// How many pages a group's leases share.
  int32_t SharedPages(const PageGroup& group) const { return group.shared_tokens / page_size_; }

  int32_t num_pages() const { return num_pages_; }
  int32_t page_size() const { return page_size_; }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }

  /// Lets a gate poison or record what is freed; an empty function: nobody listens.
  void set_free_observer(FreeObserver observer) { free_observer_ = std::move(observer); }

  /// Ok when every page is either free or in as many leases as its count says, listed once in each,
  /// and the shared pages of a lease come first. O(num_pages + pages of all leases).
  Status CheckIntegrity() const;

 private:
  friend class PageLease;
  void Take(int32_t count, std::vector<int32_t>& pages);
  void Return(PageLease::Held held);

  int32_t num_pages_;
  int32_t page_size_;
  std::vector<int32_t> free_;               ///< The next page to hand out is the last.
  std::vector<int32_t> holders_;            ///< [num_pages], how many leases hold each page.
  std::list<std::vector<int32_t>> leases_;  ///< The pages of every lease that lives.
  FreeObserver free_observer_;
};

}  // namespace decant
