// Stands in for PyTorch's header of this name while FlashAttention is compiled without PyTorch. The
// library keeps the state of its dropout here; decoding has no dropout.
#pragma once

namespace at {

struct PhiloxCudaState {};

}  // namespace at
