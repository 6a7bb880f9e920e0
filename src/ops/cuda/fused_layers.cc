#include "ops/cuda/fused_layers.h"

#include <algorithm>

#include "ops/cuda/argmax.h"
#include "ops/cuda/device.h"
#include "ops/cuda/residual_form.h"

namespace decant {
namespace {

constexpr size_t kElementBytes = 2;

/// What a weight's products are measured with.
std::vector<LinearFinish> TunedFinishes(FusedLayers::Use use) {
  switch (use) {
    case FusedLayers::Use::kGateUp:
      return {LinearFinish::kSiluMul};
    case FusedLayers::Use::kProjection:
      return {LinearFinish::kResidual};
    case FusedLayers::Use::kHead:
      return {LinearFinish::kFloat, LinearFinish::kArgmax};
    default:
      return {LinearFinish::kFloat};
  }
}

}  // namespace

bool AreFirst(std::span<const int32_t> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != static_cast<int32_t>(i)) return false;
  }
  return true;
}

Expected<FusedLayers::FormMemory> FusedLayers::FormMemory::Allocate(size_t rounded_bytes,
                                                                    size_t squares_bytes,
                                                                    std::string_view what) {
  FormMemory memory;
  DECANT_ASSIGN_OR_RETURN(memory.rounded, DeviceBuffer::Allocate(rounded_bytes, what));
  DECANT_ASSIGN_OR_RETURN(memory.squares, DeviceBuffer::Allocate(squares_bytes, what));
  return memory;
}

Expected<std::unique_ptr<FusedLayers>> FusedLayers::Create(const Options& options,
                                                           const CudaStream& stream,
                                                           float* residual) {
  std::unique_ptr<FusedLayers> layers(new FusedLayers(options, stream, residual));
  DECANT_ASSIGN_OR_RETURN(layers->linear_,
                          InvariantLinear::Create(options.type, options.device, stream));
  const auto allocate = [&](int32_t tokens) {
    const auto rows = static_cast<size_t>(tokens);
    return FormMemory::Allocate(
        rows * static_cast<size_t>(options.shape.hidden) * kElementBytes,
        rows * static_cast<size_t>(SquareParts(options.shape.hidden)) * sizeof(float),
        "the workspace");
  };
  DECANT_ASSIGN_OR_RETURN(layers->form_, allocate(options.max_tokens));
  DECANT_ASSIGN_OR_RETURN(layers->sampled_, allocate(options.max_samples));
  DECANT_ASSIGN_OR_RETURN(
      layers->parts_,
      DeviceBuffer::Allocate(static_cast<size_t>(options.max_samples) *
                                 static_cast<size_t>(ArgmaxParts(options.shape.vocab)) *
                                 sizeof(ArgmaxPart),
                             "the workspace"));
  return layers;
}

int64_t FusedLayers::workspace_bytes() const {
  int64_t bytes = linear_->workspace_bytes() + static_cast<int64_t>(parts_.size());
  for (const FormMemory* memory : {&form_, &sampled_}) {
    bytes += static_cast<int64_t>(memory->rounded.size() + memory->squares.size());
  }
  return bytes;
}

int32_t FusedLayers::PairDistance(Use use) const {
  if (use == Use::kQkv) return options_.shape.head_dim / 2;
  return use == Use::kGateUp ? options_.shape.intermediate : 0;
}

Expected<std::unique_ptr<LinearWeight>> FusedLayers::Pack(const CudaWeight& weight, Use use) {
  DECANT_ASSIGN_OR_RETURN(PackedWeight packed, linear_->Pack(weight.buffer.data(), weight.rows,
                                                             weight.cols, PairDistance(use)));
  DECANT_RETURN_IF_ERROR(stream_.Synchronize());  // the rows die when this returns
  auto made = std::make_unique<CudaPackedWeight>(std::move(packed));
  for (const LinearFinish finish : TunedFinishes(use)) {
    auto same = std::ranges::find_if(cases_, [&](const InvariantLinear::TuneCase& tune) {
      const PackedWeight& first = *tune.weights.front();
      return tune.finish == finish && first.rows == weight.rows && first.cols == weight.cols;
    });
    if (same == cases_.end()) {
      const int32_t tokens = use == Use::kHead ? options_.max_samples : options_.max_tokens;
      cases_.push_back({.weights = {}, .finish = finish, .max_tokens = tokens});
      same = cases_.end() - 1;
    }
    same->weights.push_back(&made->weight);
  }
  return std::unique_ptr<LinearWeight>(std::move(made));
}

Status FusedLayers::Tune() {
  constexpr std::string_view kWhat = "choosing linear layers' kernels";
  const auto sizes = InvariantLinear::TuneRoom::For(cases_);
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer input, DeviceBuffer::Allocate(sizes.input, kWhat));
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer output, DeviceBuffer::Allocate(sizes.output, kWhat));
  DECANT_ASSIGN_OR_RETURN(const FormMemory form,
                          FormMemory::Allocate(sizes.rounded, sizes.squares, kWhat));
  for (const DeviceBuffer* buffer : {&input, &output, &form.rounded, &form.squares}) {
    DECANT_RETURN_IF_ERROR(
        CudaStatus(FillDevice(buffer->data(), 0, buffer->size()), "clearing memory"));
  }
  return linear_->Tune(cases_,
                       {.input = input.data(), .output = output.data(), .form = form.form()});
}

LinearInput FusedLayers::Normed(const FormMemory& memory) const {
  return {.elements = memory.rounded.data(),
          .squares = memory.squares.As<float>(),
          .epsilon = options_.shape.norm_epsilon};
}

Status FusedLayers::Run(const LinearWeight& weight, const LinearInput& input, int32_t tokens,
                        const ProductResult& result) {
  return linear_->Run(static_cast<const CudaPackedWeight&>(weight).weight, input, tokens, result);
}

Status FusedLayers::Embed(const CudaWeight& table, const StepArrays& step,
                          const int32_t* last_tokens) {
  LaunchEmbedForm(options_.type, table.buffer.data(), options_.shape.hidden, step, last_tokens,
                  residual_, form_.form(), stream_.get());
  return CudaStatus(cudaGetLastError(), "embedding");
}

Status FusedLayers::TakeResidual(int32_t tokens) {
  LaunchResidualForm(options_.type, residual_, tokens, options_.shape.hidden, form_.form(),
                     stream_.get());
  return CudaStatus(cudaGetLastError(), "rounding the residual");
}

Status FusedLayers::Qkv(const LinearWeight& weight, const QkvPlaces& places, int32_t tokens,
                        void* queries) {
  return Run(weight, Normed(form_), tokens,
             {.finish = LinearFinish::kQkv, .output = queries, .qkv = places});
}

Status FusedLayers::QkvSums(const LinearWeight& weight, int32_t tokens, float* sums) {
  return Run(weight, Normed(form_), tokens, {.finish = LinearFinish::kFloat, .output = sums});
}

Status FusedLayers::ProjectAdd(const LinearWeight& weight, const void* input, int32_t tokens) {
  return Run(weight, {.elements = input}, tokens,
             {.finish = LinearFinish::kResidual, .output = residual_, .form = form_.form()});
}

Status FusedLayers::GateUpSilu(const LinearWeight& weight, int32_t tokens, void* out) {
  return Run(weight, Normed(form_), tokens, {.finish = LinearFinish::kSiluMul, .output = out});
}

Expected<LinearInput> FusedLayers::NormedOf(std::span<const int32_t> listed) {
  if (AreFirst(listed)) return Normed(form_);
  LaunchGatherForm(options_.type, form_.form(), listed, options_.shape.hidden, sampled_.form(),
                   stream_.get());
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "collecting the sampled tokens"));
  return Normed(sampled_);
}

Status FusedLayers::Head(const LinearWeight& weight, std::span<const int32_t> listed,
                         float* logits) {
  DECANT_ASSIGN_OR_RETURN(const LinearInput input, NormedOf(listed));
  return Run(weight, input, static_cast<int32_t>(listed.size()),
             {.finish = LinearFinish::kFloat, .output = logits});
}

Status FusedLayers::HeadTokens(const LinearWeight& weight, std::span<const int32_t> listed,
                               std::span<const int32_t> slots, int32_t* last_tokens,
                               int32_t* tokens_out) {
  DECANT_ASSIGN_OR_RETURN(const LinearInput input, NormedOf(listed));
  DECANT_RETURN_IF_ERROR(Run(weight, input, static_cast<int32_t>(listed.size()),
                             {.finish = LinearFinish::kArgmax, .output = parts_.data()}));
  LaunchArgmaxOfParts(parts_.As<ArgmaxPart>(), options_.shape.vocab, slots, last_tokens, tokens_out,
                      stream_.get());
  return CudaStatus(cudaGetLastError(), "sampling");
}

Status FusedLayers::HeadFirstTokens(const LinearWeight& weight, int32_t tokens,
                                    const StepArrays& step, int32_t* last_tokens,
                                    int32_t* tokens_out, int32_t turn_stride) {
  DECANT_RETURN_IF_ERROR(Run(weight, Normed(form_), tokens,
                             {.finish = LinearFinish::kArgmax, .output = parts_.data()}));
  LaunchArgmaxOfFirst(parts_.As<ArgmaxPart>(), options_.shape.vocab, tokens, step, last_tokens,
                      tokens_out, turn_stride, stream_.get());
  return CudaStatus(cudaGetLastError(), "sampling");
}

}  // namespace decant
