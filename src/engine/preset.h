#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/device.h"
#include "ops/ops.h"

namespace decant {

/// An engine of the experiment: a page size, a decode kernel and linear layers under one name.
struct Preset {
  std::string_view name;
  int32_t page_size = 0;  ///< slots
  DecodeKernel decode_kernel = DecodeKernel::kSplit;
  LinearLayers linear = LinearLayers::kLibrary;
};

/// The preset named `name`: "fused" (pages of 64, `rows`), "flash" (pages of 256, `flash`) or
/// "decant" (pages of 64, `split`, on CUDA the invariant linear layers); "auto" is decant. Errors:
/// kInvalidArgument with the allowed names for any other; kUnimplemented for one whose kernel the
/// device lacks.
Expected<Preset> FindPreset(std::string_view name, const Device& device);

/// The decode kernel named `name`, for --decode-kernel. Errors as above.
Expected<DecodeKernel> FindDecodeKernel(std::string_view name, const Device& device);

/// The same for a list.
Expected<std::vector<DecodeKernel>> FindDecodeKernels(std::span<const std::string> names,
                                                      const Device& device);

/// The linear layers named "cublas" or "invariant" (CUDA), "onednn" or "int8" (the CPU), for
/// --linear. Errors: kInvalidArgument for any other; kUnimplemented for one that the device lacks.
Expected<LinearLayers> FindLinearLayers(std::string_view name, const Device& device);

/// The page size of the preset that uses `kernel`.
int32_t PresetPageSize(DecodeKernel kernel);

/// The weight copies named "keep" or "bf16", for --weights.
Expected<WeightCopies> FindWeightCopies(std::string_view name);

}  // namespace decant
