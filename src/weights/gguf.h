#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/ggml_type.h"
#include "weights/gguf_metadata.h"
#include "weights/mapped_file.h"

namespace decant {

/// One tensor of a GGUF file. `data` points into the file.
struct TensorInfo {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> dims;        ///< 1 to 4, none zero, the fastest first: {columns, rows}.
  uint64_t offset = 0;              ///< Of the data in the file, in bytes from its start.
  std::span<const std::byte> data;  ///< Whole rows of whole blocks.

  int64_t row_length() const { return dims[0]; }
  int64_t elements() const;
  int64_t rows() const { return elements() / row_length(); }
};

/// A GGUF file of version 2 or 3 (little-endian), mapped and checked. Format:
/// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
///
/// Everything the file says of itself is checked when it is opened: counts, lengths, types,
/// products of dimensions, alignment, duplicates, and that tensors lie inside the file without
/// overlapping. Work and memory are bounded by the limits below, whatever the file says. Tensor
/// data are not looked at.
class GgufFile {
 public:
  /// The most that is read of header, metadata and tensor list together.
  static constexpr uint64_t kMaxHeaderBytes = uint64_t{128} << 20;
  static constexpr uint64_t kMaxEntries = 65'536;
  static constexpr uint64_t kMaxTensors = 65'536;
  static constexpr uint64_t kMaxArrayElements = uint64_t{4} << 20;
  static constexpr uint64_t kMaxKeyBytes = 65'535;     ///< The format's own limit.
  static constexpr uint64_t kMaxTensorNameBytes = 64;  ///< The format's own limit.
  static constexpr uint32_t kDefaultAlignment = 32;

  /// Maps and checks the file at `path`. Errors name the file, the key or tensor, and the fault:
  /// kNotFound and kInvalidArgument for a file that cannot be read, kUnimplemented for what the
  /// format allows and this reader does not (big-endian files, arrays of arrays), kDataLoss else.
  static Expected<GgufFile> Open(const std::string& path);

  /// The same for bytes in memory; `name` stands for the path in errors.
  static Expected<GgufFile> FromBytes(std::string name, std::vector<std::byte> bytes);

  const std::string& path() const { return path_; }
  uint64_t file_size() const { return bytes().size(); }
  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }

  const GgufMetadata& metadata() const { return metadata_; }

  /// In the order of the file's tensor list.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  /// Null where there is no such tensor.
  const TensorInfo* Find(std::string_view name) const;

  /// kNotFound, naming file and tensor, where there is none.
  Expected<const TensorInfo*> Require(std::string_view name) const;

  /// Asks the system to read the whole file ahead of its use; returns at once.
  void Prefetch() const { mapping_.Prefetch(); }

 private:
  GgufFile() = default;
  Status Parse();
  std::span<const std::byte> bytes() const { return owned_.empty() ? mapping_.bytes() : owned_; }

  std::string path_;
  MappedFile mapping_;
  std::vector<std::byte> owned_;
  uint32_t version_ = 0;
  uint32_t alignment_ = kDefaultAlignment;
  GgufMetadata metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  ///< Indices of tensors_, ordered by name.
};

}  // namespace decant
