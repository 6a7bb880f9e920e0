#include "cache/page_pool.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {

PageLease& PageLease::operator=(PageLease&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    held_ = other.held_;
  }
  return *this;
}

void PageLease::Release() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Return(held_);
}

Status ValidatePageSize(int32_t page_size) {
  if (page_size < 1 || page_size > kMaxPageSize) {
    return InvalidArgument("a page of {} slots: allowed are 1 to {}", page_size, kMaxPageSize);
  }
  return {};
}

Status ValidatePoolShape(int32_t num_pages, int32_t page_size) {
  DECANT_RETURN_IF_ERROR(ValidatePageSize(page_size));
  const int32_t most_pages = std::numeric_limits<int32_t>::max() / page_size;
  if (num_pages < 1 || num_pages > most_pages) {
    return InvalidArgument("a pool of {} pages: allowed are 1 to {} of {} slots", num_pages,
                           most_pages, page_size);
  }
  return {};
}

PagePool::PagePool(int32_t num_pages, int32_t page_size)
    : num_pages_(num_pages), page_size_(page_size) {
  const Status shape = ValidatePoolShape(num_pages, page_size);
  DECANT_CHECK(shape.ok(), "{}", shape.ToString());
  free_.reserve(num_pages);
  holders_.resize(num_pages);
  for (int32_t page = num_pages - 1; page >= 0; --page) free_.push_back(page);
}

PagePool::~PagePool() {
  DECANT_CHECK(leases_.empty(), "{} leases outlive their pool", leases_.size());
}

std::optional<PageLease> PagePool::Reserve(int32_t tokens) {
  std::optional<std::vector<PageLease>> leases = ReserveGroup({.tokens = tokens});
  if (!leases) return std::nullopt;
  return std::move(leases->front());
}

std::optional<std::vector<PageLease>> PagePool::ReserveGroup(const PageGroup& group) {
  DECANT_CHECK(group.tokens >= 1 && group.shared_tokens >= 0 &&
                   group.shared_tokens <= group.tokens && group.leases >= 1,
               "a reservation of {} tokens, {} of them shared, for {} leases", group.tokens,
               group.shared_tokens, group.leases);
  if (PagesFor(group) > free_pages()) return std::nullopt;
  std::vector<int32_t> shared;
  Take(SharedPages(group), shared);
  const int32_t own = PagesFor(int64_t{group.tokens}) - SharedPages(group);
  std::vector<PageLease> leases;
  leases.reserve(group.leases);
  for (int32_t i = 0; i < group.leases; ++i) {
    const auto held = leases_.insert(leases_.end(), shared);
    Take(own, *held);
    for (const int32_t page : *held) ++holders_[page];
    leases.push_back(PageLease(this, held));
  }
  return leases;
}

int32_t PagePool::PagesFor(int64_t tokens) const {
  return Narrow<int32_t>(CeilDiv<int64_t>(tokens, page_size_));
}

int64_t PagePool::PagesFor(const PageGroup& group) const {
  const int32_t shared = SharedPages(group);
  return shared + int64_t{group.leases} * (PagesFor(int64_t{group.tokens}) - shared);
}

/// Moves `count` free pages to the end of `pages`.
void PagePool::Take(int32_t count, std::vector<int32_t>& pages) {
  pages.insert(pages.end(), free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
}

void PagePool::Return(PageLease::Held held) {
  const std::span<const int32_t> pages = *held;
  size_t still_held = 0;  // by others: the first pages of the lease, as only a beginning is shared
  for (const int32_t page : pages) {
    DECANT_CHECK(holders_[page] >= 1, "page {} came back and was not held", page);
    if (--holders_[page] > 0) ++still_held;
  }
  const std::span<const int32_t> freed = pages.subspan(still_held);
  if (free_observer_ && !freed.empty()) free_observer_(freed);
  free_.insert(free_.end(), freed.rbegin(), freed.rend());
  leases_.erase(held);
}

Status PagePool::CheckIntegrity() const {
  constexpr int32_t kFree = -1;
  std::vector<int32_t> found(num_pages_, 0);  // leases that list the page, or kFree
  for (const int32_t page : free_) {
    if (page < 0 || page >= num_pages_) {
      return Error(StatusCode::kInternal, "page {} of a pool of {}", page, num_pages_);
    }
    if (found[page] == kFree) return Error(StatusCode::kInternal, "page {} is free twice", page);
    found[page] = kFree;
  }
  std::vector<const std::vector<int32_t>*> last_lease(num_pages_, nullptr);
  for (const std::vector<int32_t>& pages : leases_) {
    for (size_t i = 0; i < pages.size(); ++i) {
      const int32_t page = pages[i];
      if (page < 0 || page >= num_pages_) {
        return Error(StatusCode::kInternal, "page {} of a pool of {}", page, num_pages_);
      }
      if (found[page] == kFree) {
        return Error(StatusCode::kInternal, "page {} is free and leased", page);
      }
      if (last_lease[page] == &pages) {
        return Error(StatusCode::kInternal, "page {} is twice in a lease", page);
      }
      if (i > 0 && holders_[page] > holders_[pages[i - 1]]) {
        return Error(StatusCode::kInternal, "page {} is shared and follows one that is not", page);
      }
      last_lease[page] = &pages;
      ++found[page];
    }
  }
  for (int32_t page = 0; page < num_pages_; ++page) {
    if (found[page] == 0) {
      return Error(StatusCode::kInternal, "page {} is neither free nor leased", page);
    }
    if (holders_[page] != std::max(found[page], 0)) {
      return Error(StatusCode::kInternal, "page {} counts {} leases: {} hold it", page,
                   holders_[page], std::max(found[page], 0));
    }
  }
  return {};
}

}  // namespace decant
