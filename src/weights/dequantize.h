#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/status.h"
#include "weights/ggml_type.h"

namespace decant {

/// Runs body(begin, end) over disjoint ranges that cover [0, n), from any threads, and returns when
/// all have run.
using ParallelFor =
    std::function<void(int64_t n, const std::function<void(int64_t begin, int64_t end)>& body)>;

/// Whether Dequantize knows the type: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K.
bool CanDequantize(GgmlType type);

/// Decodes `src` (whole blocks of `type`, any alignment) to fp32: dst.size() elements, in order.
/// The arithmetic is fp32 in the order of the format's reference, so the result is the reference's
/// to the bit. Any bytes decode to something; bad scales give inf or NaN.
/// Errors: a type that is not supported; sizes that do not match.
Status Dequantize(GgmlType type, std::span<const std::byte> src, std::span<float> dst);

/// The same, cut into pieces of some 64 Ki elements that `parallel_for` may run in any order.
Status Dequantize(GgmlType type, std::span<const std::byte> src, std::span<float> dst,
                  const ParallelFor& parallel_for);

}  // namespace decant
