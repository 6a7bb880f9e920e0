#pragma once

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "ops/ops.h"

namespace decant {

/// An engine of the experiment: a page size and a decode kernel under one name.
struct Preset {
  std::string_view name;
  int32_t page_size = 0;  ///< slots
  DecodeKernel decode_kernel = DecodeKernel::kSplit;
};

/// The preset named `name`: "fused" (pages of 64, `rows`) or "decant" (pages of 64, `split`).
/// Errors: kUnimplemented for "flash", whose kernel needs CUDA; kInvalidArgument with the allowed
/// names for any other.
Expected<Preset> FindPreset(std::string_view name);

/// The decode kernel named `name`, for --decode-kernel. Errors as above.
Expected<DecodeKernel> FindDecodeKernel(std::string_view name);

/// The weight copies named "keep" or "bf16", for --weights.
Expected<WeightCopies> FindWeightCopies(std::string_view name);

}  // namespace decant
