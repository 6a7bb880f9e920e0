#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "weights/gguf_metadata.h"
#include "weights/mapped_file.h"
#include "weights/tensor_source.h"

namespace decant {

/// A GGUF file of version 2 or 3 (little-endian), mapped and checked. Format:
/// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
///
/// Everything the file says of itself is checked when it is opened: counts, lengths, types,
/// products of dimensions, alignment, duplicates, and that tensors lie inside the file without
/// overlapping. Work and memory are bounded by the limits below, whatever the file says. Tensor
/// data are not looked at.
class GgufFile : public TensorSource {
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

  const std::string& label() const override { return path_; }
  void Prefetch() const override { mapping_.Prefetch(); }
  void Release(std::span<const std::byte> data) const override { mapping_.Release(data); }

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
};

}  // namespace decant
