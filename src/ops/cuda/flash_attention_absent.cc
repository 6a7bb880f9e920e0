#include "ops/cuda/flash_attention.h"

namespace decant {

Status FlashAttentionAvailable() {
  return Error(StatusCode::kUnimplemented,
               "the decode kernel 'flash' is not part of this program: FlashAttention's source was "
               "not there when it was built (see DECANT_FLASH_ATTENTION in docs/dependencies.md)");
}

Status FlashDecode::Run(const FlashDecodeArgs& /*args*/, cudaStream_t /*stream*/) const {
  return FlashAttentionAvailable();
}

}  // namespace decant
