#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "weights/gguf.h"
#include "weights/gguf_metadata.h"

namespace decant::internal {

/// Reads the structure of a GGUF file once, front to back, believing nothing unchecked. What it
/// gives points into the bytes. Use GgufFile; this is its inside.
class GgufParser {
 public:
  explicit GgufParser(std::span<const std::byte> file);

  Status Parse();

  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  std::vector<GgufEntry> TakeEntries() { return std::move(entries_); }
  std::vector<TensorInfo> TakeTensors() { return std::move(tensors_); }

 private:
  uint64_t Remaining() const { return header_.size() - position_; }
  template <typename T>
  bool Read(T& value);
  bool ReadString(std::string_view& text, uint64_t& length);

  /// The error for a read that failed: `what` needed more than is left.
  Status Truncated(std::string_view what) const;
  Status ReadName(std::string_view what, uint64_t max_bytes, std::string_view& name);
  Status ReadHeader();
  Status CheckCount(std::string_view what, uint64_t count, uint64_t limit,
                    uint64_t min_bytes) const;
  Status ReadEntry(GgufEntry& entry);
  Status ReadValue(GgufEntry& entry);
  Status ReadElements(GgufEntry& entry);
  Status CheckDuplicateKeys() const;
  Status ReadAlignment();
  Status ReadTensor(TensorInfo& tensor);
  Status ReadDims(TensorInfo& tensor);
  Status PlaceTensors();
  Status CheckOverlap() const;

  std::span<const std::byte> file_;
  std::span<const std::byte> header_;  ///< The part of file_ that may be read as structure.
  uint64_t position_ = 0;
  uint32_t version_ = 0;
  uint32_t alignment_ = GgufFile::kDefaultAlignment;
  uint64_t entry_count_ = 0;
  uint64_t tensor_count_ = 0;
  std::vector<GgufEntry> entries_;
  std::vector<TensorInfo> tensors_;
};

}  // namespace decant::internal
