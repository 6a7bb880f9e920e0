#pragma once

namespace decant {

/// Who attends for prompt chunks.
enum class PromptKernel {
  kOwn,    ///< the kernel that goes with the decode kernel in use
  kFlash,  ///< FlashAttention 2.8.3's, as a yardstick: plain pages of a multiple of 256 slots, CUDA
           ///< only
};

}  // namespace decant
