#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"

namespace decant {

class PagePool;

/// A reservation: pages that belong to nobody else until the lease dies. Move-only.
class PageLease {
 public:
  PageLease() = default;  ///< Holds nothing, like a lease that was moved from.
  PageLease(PageLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), pages_(std::exchange(other.pages_, {})) {}
  PageLease& operator=(PageLease&& other) noexcept;
  PageLease(const PageLease&) = delete;
  PageLease& operator=(const PageLease&) = delete;
  ~PageLease() { Release(); }

  /// The pages in order of position. The span stays valid, wherever the lease moves, until the
  /// pages go back.
  std::span<const int32_t> pages() const { return pages_; }

  /// Gives the pages back now; the lease then holds nothing.
  void Release();

 private:
  friend class PagePool;
  PageLease(PagePool* pool, std::span<const int32_t> pages) : pool_(pool), pages_(pages) {}

  PagePool* pool_ = nullptr;
  std::span<const int32_t> pages_;
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
  /// Called with the pages of a lease when they come back, before anybody can have them again.
  using FreeObserver = std::function<void(std::span<const int32_t>)>;

  /// The shape must be one that ValidatePoolShape accepts.
  PagePool(int32_t num_pages, int32_t page_size);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;
  ~PagePool();

  /// Pages for `tokens` >= 1 positions, rounded up to whole pages; all of them, or nothing when
  /// fewer are free.
  std::optional<PageLease> Reserve(int32_t tokens);

  /// How many pages `tokens` >= 0 positions take.
  int32_t PagesFor(int64_t tokens) const;

  int32_t num_pages() const { return num_pages_; }
  int32_t page_size() const { return page_size_; }
  int32_t free_pages() const { return static_cast<int32_t>(free_.size()); }

  /// Lets a gate poison or record what is freed; an empty function: nobody listens.
  void set_free_observer(FreeObserver observer) { free_observer_ = std::move(observer); }

  /// Ok when every page is either free or in one lease, and listed there once. O(num_pages).
  Status CheckIntegrity() const;

 private:
  friend class PageLease;
  void Return(std::span<const int32_t> pages);

  int32_t num_pages_;
  int32_t page_size_;
  std::vector<int32_t> free_;  ///< The next page to hand out is the last.
  /// The pages of every lease that lives, by its first page: no two leases have the same one.
  std::unordered_map<int32_t, std::vector<int32_t>> leases_;
  FreeObserver free_observer_;
};

}  // namespace decant
