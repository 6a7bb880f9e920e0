#include "weights/gguf.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "weights/gguf_parser.h"

namespace decant {

int64_t TensorInfo::elements() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Expected<GgufFile> GgufFile::Open(const std::string& path) {
  GgufFile file;
  file.path_ = path;
  DECANT_ASSIGN_OR_RETURN(file.mapping_, MappedFile::Open(path));
  DECANT_RETURN_IF_ERROR(file.Parse());
  return file;
}

Expected<GgufFile> GgufFile::FromBytes(std::string name, std::vector<std::byte> bytes) {
  GgufFile file;
  file.path_ = std::move(name);
  file.owned_ = std::move(bytes);
  DECANT_RETURN_IF_ERROR(file.Parse());
  return file;
}

Status GgufFile::Parse() {
  internal::GgufParser parser(bytes());
  if (Status status = parser.Parse(); !status.ok()) return status.WithContext(path_);
  version_ = parser.version();
  alignment_ = parser.alignment();
  metadata_ = GgufMetadata(path_, parser.TakeEntries());
  tensors_ = parser.TakeTensors();

  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  const auto name_of = [this](uint32_t index) -> std::string_view { return tensors_[index].name; };
  std::ranges::sort(by_name_, {}, name_of);
  return Status();
}

const TensorInfo* GgufFile::Find(std::string_view name) const {
  const auto name_of = [this](uint32_t index) -> std::string_view { return tensors_[index].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Expected<const TensorInfo*> GgufFile::Require(std::string_view name) const {
  const TensorInfo* tensor = Find(name);
  if (tensor == nullptr) return Error(StatusCode::kNotFound, "{}: no tensor '{}'", path_, name);
  return tensor;
}

}  // namespace decant
