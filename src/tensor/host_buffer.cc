#include "tensor/host_buffer.h"

#include <sys/mman.h>

#include <utility>

#include "base/check.h"

namespace decant {

HostBuffer::HostBuffer(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  DECANT_CHECK(memory != MAP_FAILED, "out of memory: {} bytes", bytes);
  // Streaming weights through 4 KiB pages is bound by page walks; refusal of the advice is
  // harmless.
  constexpr size_t kLargePage = size_t{2} << 20;
  if (bytes >= kLargePage) madvise(memory, bytes, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(memory);
}

HostBuffer::HostBuffer(HostBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostBuffer& HostBuffer::operator=(HostBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HostBuffer::~HostBuffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace decant
