#include "weights/tensor_source.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

namespace decant {

int64_t TensorInfo::elements() const {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

void TensorSource::SetTensors(std::vector<TensorInfo> tensors) {
  tensors_ = std::move(tensors);
  by_name_.resize(tensors_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  const auto name_of = [this](uint32_t index) -> std::string_view { return tensors_[index].name; };
  std::ranges::sort(by_name_, {}, name_of);
  data_bytes_ = 0;
  for (const TensorInfo& tensor : tensors_) {
    data_bytes_ += static_cast<int64_t>(tensor.data.size());
  }
}

const TensorInfo* TensorSource::Find(std::string_view name) const {
  const auto name_of = [this](uint32_t index) -> std::string_view { return tensors_[index].name; };
  const auto found = std::ranges::lower_bound(by_name_, name, {}, name_of);
  if (found == by_name_.end() || tensors_[*found].name != name) return nullptr;
  return &tensors_[*found];
}

Expected<const TensorInfo*> TensorSource::Require(std::string_view name) const {
  const TensorInfo* tensor = Find(name);
  if (tensor == nullptr) return Error(StatusCode::kNotFound, "{}: no tensor '{}'", label(), name);
  return tensor;
}

}  // namespace decant
