// The only file that sees FlashAttention's headers.
#include <c10/cuda/CUDAException.h>
#include <cutlass/numeric_types.h>
#include <flash.h>

#include <cmath>

#include "ops/cuda/flash_attention.h"

namespace decant {
namespace {

using Launch = void (*)(FLASH_NAMESPACE::Flash_fwd_params&, cudaStream_t);

/// The instances that cmake/FlashAttention.cmake compiles.
template <bool kCausal>
Launch FindInstance(CudaType type, int32_t head_dim) {
  using FLASH_NAMESPACE::run_mha_fwd_splitkv_dispatch;
  if (type == CudaType::kF16) {
    return head_dim == 64 ? &run_mha_fwd_splitkv_dispatch<cutlass::half_t, 64, kCausal>
                          : &run_mha_fwd_splitkv_dispatch<cutlass::half_t, 128, kCausal>;
  }
  return head_dim == 64 ? &run_mha_fwd_splitkv_dispatch<cutlass::bfloat16_t, 64, kCausal>
                        : &run_mha_fwd_splitkv_dispatch<cutlass::bfloat16_t, 128, kCausal>;
}

int32_t RoundUp128(int32_t value) { return (value + 127) / 128 * 128; }

/// Where queries and results lie, for the library.
void SetQueries(const FlashDecodeShape& shape, const FlashDecodeArgs& args,
                FLASH_NAMESPACE::Flash_fwd_params& params) {
  const int32_t group = shape.heads / shape.kv_heads;
  params.q_ptr = const_cast<void*>(args.queries);
  params.o_ptr = args.attended;
  params.q_batch_stride = shape.queries * args.query_stride;
  params.o_batch_stride = shape.queries * args.attended_stride;
  params.h_k = shape.kv_heads;
  if (shape.queries > 1) {
    params.q_row_stride = args.query_stride;
    params.o_row_stride = args.attended_stride;
    params.q_head_stride = shape.head_dim;
    params.h = shape.heads;
    params.h_h_k_ratio = group;
    params.seqlen_q = shape.queries;
  } else {
    // The query heads of a KV head become positions of one head: [rows, group, kv_heads, head_dim].
    params.q_row_stride = shape.head_dim;
    params.o_row_stride = shape.head_dim;
    params.q_head_stride = int64_t{group} * shape.head_dim;
    params.h = shape.kv_heads;
    params.h_h_k_ratio = 1;
    params.seqlen_q = group;
  }
  params.o_head_stride = params.q_head_stride;
  params.seqlen_q_rounded = RoundUp128(params.seqlen_q);
}

Status CheckArgs(const FlashDecodeArgs& args) {
  struct Pointer {
    const char* name;
    const void* value;
    uintptr_t alignment;
  };
  for (const Pointer& pointer :
       {Pointer{"queries", args.queries, 16}, Pointer{"attended", args.attended, 16},
        Pointer{"k", args.k, 16}, Pointer{"v", args.v, 16},
        Pointer{"block_tables", args.block_tables, sizeof(int32_t)},
        Pointer{"context_lens", args.context_lens, sizeof(int32_t)},
        Pointer{"workspace", args.workspace, 16}}) {
    if (pointer.value == nullptr) return InvalidArgument("flash: {} is null", pointer.name);
    if (reinterpret_cast<uintptr_t>(pointer.value) % pointer.alignment != 0) {
      return InvalidArgument("flash: {} is not aligned to {} bytes", pointer.name,
                             pointer.alignment);
    }
  }
  struct Stride {
    const char* name;
    int64_t value;
  };
  for (const Stride& stride :
       {Stride{"query_stride", args.query_stride}, Stride{"attended_stride", args.attended_stride},
        Stride{"page_stride", args.page_stride}, Stride{"slot_stride", args.slot_stride},
        Stride{"head_stride", args.head_stride}}) {
    if (stride.value <= 0 || stride.value % 8 != 0) {
      return InvalidArgument("flash: {} is {}; allowed: multiples of 8", stride.name, stride.value);
    }
  }
  return {};
}

}  // namespace

Status FlashAttentionAvailable() { return {}; }

Status FlashDecode::Run(const FlashDecodeArgs& args, cudaStream_t stream) const {
  DECANT_RETURN_IF_ERROR(CheckArgs(args));
  const Workspace layout = LayOut(shape_, splits_);
  auto* workspace = static_cast<std::byte*>(args.workspace);

  FLASH_NAMESPACE::Flash_fwd_params params{};
  params.is_bf16 = shape_.type == CudaType::kBf16;

  SetQueries(shape_, args, params);
  params.b = shape_.rows;
  params.d = shape_.head_dim;
  params.d_rounded = shape_.head_dim;

  // With a block table, the "batch" of K and V is the page and the "row" the slot.
  params.k_ptr = const_cast<void*>(args.k);
  params.v_ptr = const_cast<void*>(args.v);
  params.k_batch_stride = args.page_stride;
  params.v_batch_stride = args.page_stride;
  params.k_row_stride = args.slot_stride;
  params.v_row_stride = args.slot_stride;
  params.k_head_stride = args.head_stride;
  params.v_head_stride = args.head_stride;
  params.block_table = const_cast<int32_t*>(args.block_tables);
  params.block_table_batch_stride = args.table_stride;
  params.page_block_size = shape_.page_size;
  params.seqlen_k = shape_.table_pages * shape_.page_size;
  params.seqlen_k_rounded = RoundUp128(params.seqlen_k);
  params.cu_seqlens_k = const_cast<int32_t*>(args.context_lens);
  params.is_seqlens_k_cumulative = false;

  params.scale_softmax = args.scale;
  params.scale_softmax_log2 = static_cast<float>(args.scale * M_LOG2E);
  const bool causal = shape_.queries > 1;
  params.is_causal = causal;
  params.window_size_left = causal ? params.seqlen_k : -1;
  params.window_size_right = causal ? 0 : -1;
  params.p_dropout = 1;  // the probability of keeping a value
  params.p_dropout_in_uint8_t = 255;
  params.rp_dropout = 1;
  params.scale_softmax_rp_dropout = args.scale;

  params.num_splits = splits_;
  params.softmax_lse_ptr = workspace;
  if (splits_ > 1) {
    params.softmax_lseaccum_ptr = workspace + layout.split_lse;
    params.oaccum_ptr = workspace + layout.split_attended;
  }

  const Launch launch = causal ? FindInstance<true>(shape_.type, shape_.head_dim)
                               : FindInstance<false>(shape_.type, shape_.head_dim);
  launch(params, stream);
  const cudaError_t error = c10::cuda::TakeFirstError();
  if (error != cudaSuccess) {
    return Error(StatusCode::kInternal, "CUDA, launching FlashAttention: {}",
                 cudaGetErrorString(error));
  }
  return {};
}

}  // namespace decant
