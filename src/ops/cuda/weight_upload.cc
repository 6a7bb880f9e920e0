#include "ops/cuda/weight_upload.h"

#include <algorithm>

#include "base/narrow.h"
#include "ops/cuda/elementwise.h"

namespace decant {
namespace {

constexpr size_t kStageBytes = size_t{32} << 20;

}  // namespace

Expected<WeightUpload> WeightUpload::Create(CudaType type, ThreadPool& pool) {
  WeightUpload upload;
  upload.type_ = type;
  upload.pool_ = &pool;
  for (Stage& stage : upload.stages_) {
    DECANT_ASSIGN_OR_RETURN(stage.host, PinnedBuffer::Allocate(kStageBytes, "loading weights"));
    DECANT_ASSIGN_OR_RETURN(stage.device, DeviceBuffer::Allocate(kStageBytes, "loading weights"));
    DECANT_ASSIGN_OR_RETURN(stage.done, CudaEvent::Create());
  }
  return upload;
}

Expected<std::unique_ptr<CudaWeight>> WeightUpload::Upload(
    std::initializer_list<const RowSource*> sources, const float* gains, const CudaStream& stream) {
  int64_t rows = 0;
  const int64_t cols = (*sources.begin())->cols;
  const ColumnGains column_gains{.gains = gains, .cols = Narrow<int32_t>(cols)};
  for (const RowSource* source : sources) rows += source->rows;
  DECANT_ASSIGN_OR_RETURN(
      DeviceBuffer memory,
      DeviceBuffer::Allocate(static_cast<size_t>(rows * cols) * sizeof(uint16_t), "weights"));
  auto* target = memory.As<uint16_t>();
  const int64_t rows_at_once =
      std::max<int64_t>(1, static_cast<int64_t>(kStageBytes / sizeof(float)) / cols);
  for (const RowSource* source : sources) {
    if (source->random) {
      LaunchRandomFill(type_, *source->random, source->rows * cols, target, stream.get(),
                       column_gains);
      DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "making weights"));
      target += source->rows * cols;
      continue;
    }
    for (int64_t first = 0; first < source->rows; first += rows_at_once) {
      const int64_t count = std::min(rows_at_once, source->rows - first);
      turn_ = 1 - turn_;
      Stage& stage = stages_[turn_];
      if (stage.used) DECANT_RETURN_IF_ERROR(stage.done.Wait());
      constexpr int64_t kRowsPerItem = 16;
      auto* staged = stage.host.As<float>();
      pool_->Run(CeilDiv(count, kRowsPerItem), [&](int64_t item, int) {
        const int64_t row = item * kRowsPerItem;
        source->read(first + row, std::min(kRowsPerItem, count - row), staged + row * cols);
      });
      DECANT_RETURN_IF_ERROR(
          CudaStatus(cudaMemcpyAsync(stage.device.data(), staged,
                                     static_cast<size_t>(count * cols) * sizeof(float),
                                     cudaMemcpyHostToDevice, stream.get()),
                     "loading weights"));
      LaunchConvert(type_, stage.device.As<float>(), count * cols, column_gains, target,
                    stream.get());
      DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "rounding weights"));
      DECANT_RETURN_IF_ERROR(stage.done.Record(stream));
      stage.used = true;
      target += count * cols;
    }
  }
  return std::make_unique<CudaWeight>(std::move(memory), rows, cols);
}

}  // namespace decant
