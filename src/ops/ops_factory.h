#pragma once

#include <functional>
#include <memory>

#include "base/status.h"
#include "ops/ops.h"
#include "ops/prompt_kernel.h"

namespace decant {

/// What operations are made for.
struct OpsSpec {
  DecoderShape shape{};
  int32_t max_tokens = 0;   ///< Tokens of one step at most.
  int32_t max_rows = 0;     ///< Rows of one step at most.
  int32_t max_samples = 0;  ///< Tokens whose logits are wanted at a time, at most.
  /// The decode kernel that pages are laid out for; UseDecodeKernel takes others too.
  DecodeKernel decode_kernel = DecodeKernel::kRows;
  LinearLayers linear = LinearLayers::kLibrary;
  PromptKernel prompt_kernel = PromptKernel::kOwn;
};

/// Makes the operations of one device, for any shape: how benches and gates get a backend without
/// knowing which. Errors: no such device, no memory, a shape that the backend cannot compute.
using OpsFactory = std::function<Expected<std::unique_ptr<Ops>>(const OpsSpec&)>;

}  // namespace decant
