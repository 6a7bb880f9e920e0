#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "weights/ggml_type.h"

namespace decant {

/// One tensor of a model file. `data` points into the file.
struct TensorInfo {
  std::string name;
  GgmlType type = GgmlType::kF32;
  std::vector<int64_t> dims;        ///< 1 or more, none zero, the fastest first: {columns, rows}.
  uint64_t offset = 0;              ///< Of the data in the file, in bytes from its start.
  std::span<const std::byte> data;  ///< Whole rows of whole blocks, at any alignment.

  int64_t row_length() const { return dims[0]; }
  int64_t elements() const;
  int64_t rows() const { return elements() / row_length(); }
};

/// The named tensors of a model, whatever kind of file they lie in. May be read by many threads.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// The file or folder, for errors.
  virtual const std::string& label() const = 0;

  /// Asks the system to read everything ahead of its use; returns at once.
  virtual void Prefetch() const = 0;

  /// Says that `data`, a part of a tensor, will not be read again soon, so that its pages need not
  /// stay in this process. They can still be read.
  virtual void Release(std::span<const std::byte> data) const = 0;

  /// In the order of the files.
  std::span<const TensorInfo> tensors() const { return tensors_; }

  /// Bytes of all tensors.
  int64_t data_bytes() const { return data_bytes_; }

  /// Null where there is no such tensor.
  const TensorInfo* Find(std::string_view name) const;

  /// kNotFound, naming file and tensor, where there is none.
  Expected<const TensorInfo*> Require(std::string_view name) const;

 protected:
  TensorSource() = default;
  TensorSource(TensorSource&&) = default;
  TensorSource& operator=(TensorSource&&) = default;

  /// The names must be distinct.
  void SetTensors(std::vector<TensorInfo> tensors);

 private:
  std::vector<TensorInfo> tensors_;
  std::vector<uint32_t> by_name_;  ///< Indices of tensors_, ordered by name.
  int64_t data_bytes_ = 0;
};

}  // namespace decant
