#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "weights/mapped_file.h"
#include "weights/tensor_source.h"

namespace decant {

/// The safetensors of a model's folder: model.safetensors, or the shards that
/// model.safetensors.index.json names, mapped and checked. Format:
/// https://huggingface.co/docs/safetensors
///
/// Everything the files say of themselves is checked when they are opened: lengths, types, products
/// of dimensions, duplicates, that tensors fill each file without overlap or gap, and that index
/// and shards agree. Work and memory are bounded, whatever the files say. Tensor data are not
/// looked at.
class SafetensorsFiles : public TensorSource {
 public:
  static constexpr size_t kMaxShards = 4096;
  static constexpr const char* kSingleName = "model.safetensors";
  static constexpr const char* kIndexName = "model.safetensors.index.json";

  /// Opens the tensors of the folder at `folder`. Errors name the file, the tensor and the fault:
  /// kNotFound and kInvalidArgument for a file that cannot be read, kUnimplemented for a dtype that
  /// this reader does not know, kDataLoss else.
  static Expected<SafetensorsFiles> Open(const std::string& folder);

  const std::string& label() const override { return folder_; }
  size_t files() const { return files_.size(); }
  void Prefetch() const override;
  void Release(std::span<const std::byte> data) const override;

 private:
  SafetensorsFiles() = default;
  Status OpenSingle(const std::string& path);
  Status OpenShards(const std::string& index_path);

  std::string folder_;
  std::vector<MappedFile> files_;
};

}  // namespace decant
