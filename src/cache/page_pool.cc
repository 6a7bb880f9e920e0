#include "cache/page_pool.h"

#include <limits>

#include "base/check.h"
#include "base/narrow.h"

namespace decant {

PageLease& PageLease::operator=(PageLease&& other) noexcept {
  if (this != &other) {
    Release();
    pool_ = std::exchange(other.pool_, nullptr);
    pages_ = std::exchange(other.pages_, {});
  }
  return *this;
}

void PageLease::Release() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->Return(std::exchange(pages_, {}));
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
  for (int32_t page = num_pages - 1; page >= 0; --page) free_.push_back(page);
}

PagePool::~PagePool() {
  DECANT_CHECK(leases_.empty(), "{} leases outlive their pool", leases_.size());
}

std::optional<PageLease> PagePool::Reserve(int32_t tokens) {
  DECANT_CHECK(tokens >= 1, "a reservation of {} tokens", tokens);
  const int32_t count = PagesFor(tokens);
  if (count > free_pages()) return std::nullopt;
  std::vector<int32_t> pages(free_.rbegin(), free_.rbegin() + count);
  free_.resize(free_.size() - count);
  const int32_t first = pages.front();
  const auto [lease, inserted] = leases_.emplace(first, std::move(pages));
  DECANT_CHECK(inserted, "page {} was free and leased", first);
  return PageLease(this, lease->second);
}

int32_t PagePool::PagesFor(int64_t tokens) const {
  return Narrow<int32_t>(CeilDiv<int64_t>(tokens, page_size_));
}

void PagePool::Return(std::span<const int32_t> pages) {
  const auto lease = leases_.find(pages.front());
  DECANT_CHECK(lease != leases_.end() && lease->second.data() == pages.data(),
               "page {} came back from a lease that does not hold it", pages.front());
  if (free_observer_) free_observer_(pages);
  free_.insert(free_.end(), pages.rbegin(), pages.rend());
  leases_.erase(lease);
}

Status PagePool::CheckIntegrity() const {
  std::vector<bool> seen(num_pages_, false);
  size_t listed = 0;
  auto mark = [&](std::span<const int32_t> pages) -> Status {
    for (const int32_t page : pages) {
      if (page < 0 || page >= num_pages_) {
        return Error(StatusCode::kInternal, "page {} of a pool of {}", page, num_pages_);
      }
      if (seen[page]) return Error(StatusCode::kInternal, "page {} is listed twice", page);
      seen[page] = true;
      ++listed;
    }
    return {};
  };
  DECANT_RETURN_IF_ERROR(mark(free_));
  for (const auto& [first, pages] : leases_) {
    DECANT_RETURN_IF_ERROR(mark(pages));
    if (pages.empty() || pages.front() != first) {
      return Error(StatusCode::kInternal, "the lease at page {} does not start there", first);
    }
  }
  if (listed != seen.size()) {
    return Error(StatusCode::kInternal, "{} of {} pages are neither free nor leased",
                 seen.size() - listed, num_pages_);
  }
  return {};
}

}  // namespace decant
