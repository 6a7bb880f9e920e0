#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ops/ops.h"

namespace decant {

/// A vector in host memory.
class HostVector : public VectorWeight {
 public:
  explicit HostVector(std::span<const float> values) : values_(values.begin(), values.end()) {}

  /// The values of a vector that was packed as a HostVector; empty for null.
  static std::span<const float> Of(const VectorWeight* vector) {
    if (vector == nullptr) return {};
    return static_cast<const HostVector*>(vector)->values_;
  }
  static std::span<const float> Of(const std::unique_ptr<VectorWeight>& vector) {
    return Of(vector.get());
  }

 private:
  std::vector<float> values_;
};

}  // namespace decant
