#include "ops/cuda/sampler.h"

#include <algorithm>
#include <cstring>

#include "ops/cuda/draw_kernel.h"

namespace decant {
namespace {

/// Rows that are drawn at a time: each needs memory for a vocabulary.
constexpr int32_t kMaxBlocks = 64;

/// Where the parts of an upload begin, in bytes.
struct UploadLayout {
  explicit UploadLayout(const StepDraws& draws) {
    biases = draws.rows.size() * sizeof(RowDraw);
    banned = biases + draws.biases.size() * sizeof(DrawBias);
    prompts = banned + draws.banned.size() * sizeof(int32_t);
    end = prompts;
    for (const StepDraws::Start& start : draws.starts) end += start.prompt.size_bytes();
  }

  size_t biases;
  size_t banned;
  size_t prompts;
  size_t end;
};

void Pack(const StepDraws& draws, const UploadLayout& layout, std::byte* out) {
  const auto copy = [out](size_t at, const auto& values) {
    if (!values.empty()) std::memcpy(out + at, values.data(), values.size() * sizeof(values[0]));
  };
  copy(0, draws.rows);
  copy(layout.biases, draws.biases);
  copy(layout.banned, draws.banned);
  size_t at = layout.prompts;
  for (const StepDraws::Start& start : draws.starts) {
    copy(at, start.prompt);
    at += start.prompt.size_bytes();
  }
}

}  // namespace

Expected<CudaSampler> CudaSampler::Create(const Limits& limits) {
  CudaSampler sampler;
  sampler.limits_ = limits;
  sampler.blocks_ = std::min(limits.max_rows, kMaxBlocks);
  const auto vocab = static_cast<size_t>(limits.vocab);
  const auto blocks = static_cast<size_t>(sampler.blocks_);
  DECANT_ASSIGN_OR_RETURN(
      sampler.counts_,
      DeviceBuffer::Allocate(static_cast<size_t>(limits.max_rows) * vocab * sizeof(TokenCount),
                             "token counts of sampling"));
  DECANT_ASSIGN_OR_RETURN(sampler.processed_, DeviceBuffer::Allocate(blocks * vocab * sizeof(float),
                                                                     "logits of sampling"));
  DECANT_ASSIGN_OR_RETURN(
      sampler.lists_,
      DeviceBuffer::Allocate(blocks * vocab * sizeof(DrawCandidate), "candidates of sampling"));
  for (Upload& upload : sampler.uploads_) {
    DECANT_ASSIGN_OR_RETURN(upload.copied, CudaEvent::Create());
  }
  return sampler;
}

Status CudaSampler::Draw(const StepDraws& draws, const float* logits, int32_t* last_tokens,
                         int32_t* tokens_out, const CudaStream& stream) {
  Upload& upload = uploads_[turn_];
  turn_ = 1 - turn_;
  if (upload.used) DECANT_RETURN_IF_ERROR(upload.copied.Wait());
  const UploadLayout layout(draws);
  if (layout.end > upload.host.size()) {
    // Prompts that are looked at are rare; room grows with the longest of them.
    const size_t bytes = std::max<size_t>(2 * layout.end, size_t{1} << 20);
    DECANT_ASSIGN_OR_RETURN(upload.host, PinnedBuffer::Allocate(bytes, "parameters of sampling"));
    DECANT_ASSIGN_OR_RETURN(upload.device, DeviceBuffer::Allocate(bytes, "parameters of sampling"));
  }
  Pack(draws, layout, upload.host.data());
  DECANT_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(upload.device.data(), upload.host.data(), layout.end,
                                 cudaMemcpyHostToDevice, stream.get()),
                 "uploading parameters of sampling"));
  DECANT_RETURN_IF_ERROR(upload.copied.Record(stream));
  upload.used = true;

  const std::byte* device = upload.device.data();
  DECANT_RETURN_IF_ERROR(
      StartCounts(draws, reinterpret_cast<const int32_t*>(device + layout.prompts), stream));
  const auto rows = static_cast<int32_t>(draws.rows.size());
  const DrawArgs args{.rows = reinterpret_cast<const RowDraw*>(device),
                      .row_count = rows,
                      .biases = reinterpret_cast<const DrawBias*>(device + layout.biases),
                      .banned = reinterpret_cast<const int32_t*>(device + layout.banned),
                      .logits = logits,
                      .vocab = limits_.vocab,
                      .counts = counts_.As<TokenCount>(),
                      .processed = processed_.As<float>(),
                      .lists = lists_.As<DrawCandidate>(),
                      .last_tokens = last_tokens,
                      .tokens_out = tokens_out};
  LaunchDraw(args, std::min(rows, blocks_), stream.get());
  return CudaStatus(cudaGetLastError(), "sampling");
}

Status CudaSampler::StartCounts(const StepDraws& draws, const int32_t* prompts,
                                const CudaStream& stream) {
  const auto vocab = static_cast<size_t>(limits_.vocab);
  for (const StepDraws::Start& start : draws.starts) {
    TokenCount* counts = counts_.As<TokenCount>() + static_cast<size_t>(start.slot) * vocab;
    DECANT_RETURN_IF_ERROR(
        CudaStatus(cudaMemsetAsync(counts, 0, vocab * sizeof(TokenCount), stream.get()),
                   "clearing token counts"));
    const auto length = static_cast<int32_t>(start.prompt.size());
    LaunchMarkPrompt(prompts, length, limits_.vocab, counts, stream.get());
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "counting a prompt's tokens"));
    prompts += length;
  }
  return {};
}

int64_t CudaSampler::bytes() const {
  size_t bytes = counts_.size() + processed_.size() + lists_.size();
  for (const Upload& upload : uploads_) bytes += upload.device.size();
  return static_cast<int64_t>(bytes);
}

}  // namespace decant
