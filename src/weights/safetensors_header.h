#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "weights/tensor_source.h"

namespace decant::internal {

/// The most of a header or an index that is read.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = uint64_t{16} << 20;
inline constexpr size_t kMaxSafetensorsTensors = 65'536;
inline constexpr size_t kMaxSafetensorsNameBytes = 256;
inline constexpr size_t kMaxSafetensorsRank = 8;

/// An error for a tensor's name that no model has: empty, long, or with control characters, which
/// would spoil messages.
Status CheckTensorName(std::string_view name);

/// The tensors of one safetensors file, in the order of their data, pointing into `file`. Errors
/// name the tensor and the fault, not the file.
Expected<std::vector<TensorInfo>> ParseSafetensors(std::span<const std::byte> file);

/// The weight_map of a model.safetensors.index.json: tensor and file names, ordered by tensor.
/// File names are plain ones. Errors name the entry and the fault, not the file.
Expected<std::vector<std::pair<std::string, std::string>>> ParseSafetensorsIndex(
    std::string_view text);

}  // namespace decant::internal
