#include "ops/cuda/split_attention.h"

#include <utility>

#include "base/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/split_items.h"

namespace decant {
namespace {

Expected<SplitDevice> DescribeDevice(const CudaDeviceInfo& device) {
  SplitDevice described{.multiprocessors = device.multiprocessors};
  for (const auto& [attribute, value] :
       {std::pair{cudaDevAttrMaxSharedMemoryPerMultiprocessor, &described.shared_bytes},
        std::pair{cudaDevAttrMaxSharedMemoryPerBlockOptin, &described.block_shared_bytes},
        std::pair{cudaDevAttrReservedSharedMemoryPerBlock, &described.reserved_bytes}}) {
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaDeviceGetAttribute(value, attribute, device.ordinal),
                                      "reading the device's shared memory"));
  }
  return described;
}

}  // namespace

Expected<SplitDecode> SplitDecode::Create(CudaType type, const AttentionShape& shape,
                                          const SplitLimits& limits, const CudaDeviceInfo& device) {
  DECANT_RETURN_IF_ERROR(CheckSplit(shape, limits));
  SplitDecode split;
  split.type_ = type;
  split.shape_ = shape;
  split.limits_ = limits;
  DECANT_ASSIGN_OR_RETURN(const SplitDevice described, DescribeDevice(device));
  DECANT_ASSIGN_OR_RETURN(split.blocks_, ChooseSplitBlocks(shape, described));
  DECANT_RETURN_IF_ERROR(PrepareSplitAttention(type, shape, split.blocks_));

  const SplitWorkspace layout = LayOutSplitWorkspace(shape, limits, split.blocks_.grid);
  DECANT_ASSIGN_OR_RETURN(
      split.workspace_,
      DeviceBuffer::Allocate(static_cast<size_t>(layout.bytes), "the decode kernel's workspace"));
  std::byte* base = split.workspace_.data();
  split.work_ = {.counts = reinterpret_cast<int32_t*>(base + layout.counts),
                 .items = reinterpret_cast<int32_t*>(base + layout.items),
                 .merges = reinterpret_cast<int4*>(base + layout.merges),
                 .partials = reinterpret_cast<float4*>(base + layout.partials),
                 .claims = reinterpret_cast<uint32_t*>(base + layout.claims)};
  DECANT_RETURN_IF_ERROR(
      CudaStatus(FillDevice(base, 0, static_cast<size_t>(layout.partials)), "clearing memory"));
  DECANT_RETURN_IF_ERROR(CudaStatus(
      FillDevice(base + layout.partials, 0xff, static_cast<size_t>(layout.bytes - layout.partials)),
      "clearing memory"));
  return split;
}

Status SplitDecode::Plan(const StepArrays& step, cudaStream_t stream) {
  if (step.decode_rows > limits_.max_rows) {
    return InvalidArgument("{} decode rows in a step that may have {}", step.decode_rows,
                           limits_.max_rows);
  }
  rows_ = step.decode_rows;
  if (rows_ == 0) return {};
  LaunchSplitItems(step, limits_.max_rows, shape_.kv_heads, limits_.page_size, work_, stream);
  return CudaStatus(cudaGetLastError(), "planning decode attention");
}

Status SplitDecode::Run(const CachePages& cache, const void* queries, void* attended,
                        cudaStream_t stream, KernelOverlap overlap) {
  return Launch({.queries = queries,
                 .attended = attended,
                 .cache = cache,
                 .overlapped = overlap == KernelOverlap::kAllowed},
                stream);
}

Status SplitDecode::RunBeside(const CachePages& cache, const void* queries, void* attended,
                              cudaStream_t stream) {
  return Launch({.queries = queries,
                 .attended = attended,
                 .cache = cache,
                 .overlapped = true,
                 .beside = true},
                stream);
}

Status SplitDecode::Launch(SplitLaunch launch, cudaStream_t stream) {
  if (rows_ == 0) return {};
  const CachePages& cache = launch.cache;
  DECANT_CHECK(cache.layout == CacheLayout::kTiled && cache.page_size == limits_.page_size &&
                   cache.head_stride == int64_t{2} * cache.page_size * shape_.head_dim &&
                   cache.page_stride == shape_.kv_heads * cache.head_stride,
               "a cache of pages of {} that is not tiled as planned", cache.page_size);
  launch.work = work_;
  // Launches that are under way at once claim items from different counters.
  launch.claim = work_.claims + launches_++ % kSplitClaims;
  LaunchSplitAttention(type_, shape_, blocks_, launch, stream);
  return CudaStatus(cudaGetLastError(), "decode attention");
}

}  // namespace decant
