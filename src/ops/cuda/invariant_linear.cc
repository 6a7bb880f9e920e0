#include "ops/cuda/invariant_linear.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/narrow.h"
#include "ops/cuda/device.h"
#include "ops/cuda/invariant_linear_kernel.h"
#include "ops/cuda/invariant_linear_portable.h"

namespace decant {
namespace {

const void* LinearKernel(CudaType type, int32_t tile) {
  return type == CudaType::kF16 ? LinearKernelF16(tile) : LinearKernelBf16(tile);
}

/// The driver's function that describes matrices to the copy engine, found at run time so that
/// programs start where there is no driver.
PFN_cuTensorMapEncodeTiled_v12000 EncodeTiled() {
  static const auto encode = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult result{};
    cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                     &result);
    return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
  }();
  return encode;
}

/// input [tokens, cols] in boxes of 64 columns and `box_tokens` tokens, swizzled as products want
/// them; zeros beyond the input.
Expected<CUtensorMap> DescribeInput(CudaType type, const void* input, int32_t tokens, int32_t cols,
                                    int32_t box_tokens) {
  const auto encode = EncodeTiled();
  if (encode == nullptr) {
    return Error(StatusCode::kUnimplemented, "the driver has no cuTensorMapEncodeTiled");
  }
  const cuuint64_t size[2] = {static_cast<cuuint64_t>(cols), static_cast<cuuint64_t>(tokens)};
  const cuuint64_t stride[1] = {static_cast<cuuint64_t>(cols) * 2};
  const cuuint32_t box[2] = {kLinearBlock, static_cast<cuuint32_t>(box_tokens)};
  const cuuint32_t step[2] = {1, 1};
  CUtensorMap map;
  const CUresult result = encode(
      &map,
      type == CudaType::kF16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
      2, const_cast<void*>(input), size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    return Error(StatusCode::kInternal, "describing a product's input [{}, {}]: driver error {}",
                 tokens, cols, static_cast<int>(result));
  }
  return map;
}

struct LaunchConfig {
  explicit LaunchConfig(const LinearPlan& plan, cudaStream_t stream) {
    config.gridDim = static_cast<unsigned>(plan.blocks);
    config.blockDim = static_cast<unsigned>(kLinearTiles[plan.tile].threads());
    config.dynamicSmemBytes = static_cast<size_t>(plan.shared_bytes);
    config.stream = stream;
    config.attrs = attributes.data();
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = plan.overlaps ? 1 : 0;
    config.numAttrs = 1;
    if (plan.cluster > 1) {
      attributes[1].id = cudaLaunchAttributeClusterDimension;
      attributes[1].val.clusterDim.x = static_cast<unsigned>(plan.cluster);
      attributes[1].val.clusterDim.y = 1;
      attributes[1].val.clusterDim.z = 1;
      config.numAttrs = 2;
    }
  }
  LaunchConfig(const LaunchConfig&) = delete;
  LaunchConfig& operator=(const LaunchConfig&) = delete;

  cudaLaunchConfig_t config{};
  std::array<cudaLaunchAttribute, 2> attributes{};
};

/// Blocks hand over at most this much each, and use so many flags.
constexpr int32_t kMaxHandOverBytes = [] {
  int32_t bytes = 0;
  for (const LinearTile& tile : kLinearTiles) bytes = std::max(bytes, LinearHandOverBytes(tile));
  return bytes;
}();
constexpr int32_t kMaxGroups = 2;

/// Token counts that plans are chosen for, and how many plans are measured for each, beside the few
/// of kTokenRows.
constexpr std::array<int32_t, 22> kTokenSteps = {1,   8,   16,  24,   32,   48,  64,  96,
                                                 128, 160, 192, 256,  320,  384, 448, 512,
                                                 544, 640, 768, 1024, 1536, 2048};
constexpr size_t kTuneCandidates = 8;

/// The next of kTokenSteps; tokens themselves beyond them.
int32_t TokenStep(int32_t tokens) {
  const auto* const step = std::ranges::lower_bound(kTokenSteps, tokens);
  return step == kTokenSteps.end() ? tokens : *step;
}

LinearProblem ProblemOf(const PackedWeight& weight, LinearFinish finish, int32_t tokens) {
  return {.rows = weight.rows,
          .cols = weight.cols,
          .splits = LinearSplits(weight.rows, weight.cols),
          .tokens = tokens,
          .token_rows_unit = TokenRowsUnit(finish, weight.rows, weight.pair_distance)};
}

/// The plans to measure.
std::vector<LinearChoice> TuneCandidates(const LinearProblem& problem, const LinearDevice& device) {
  std::vector<LinearChoice> candidates;
  size_t others = 0;
  for (const LinearChoice& choice : RankLinearChoices(problem, device)) {
    if (kLinearTiles[choice.tile].token_rows() || others++ < kTuneCandidates) {
      candidates.push_back(choice);
    }
  }
  return candidates;
}

/// What does not depend on the kernel.
LinearArguments ArgumentsOf(const PackedWeight& weight, const LinearInput& input, int32_t tokens,
                            const ProductResult& result) {
  DECANT_CHECK(result.finish != LinearFinish::kArgmax || weight.pair_distance == 0,
               "the largest of outputs whose rows are in pairs {} apart", weight.pair_distance);
  LinearArguments arguments;
  arguments.weight = weight.buffer.data();
  arguments.tokens = tokens;
  arguments.rows = weight.rows;
  arguments.cols = weight.cols;
  arguments.one_over_cols = 1 / static_cast<float>(weight.cols);
  arguments.pair_distance = weight.pair_distance;
  arguments.squares = input.squares;
  arguments.epsilon = input.epsilon;
  arguments.result = result;
  return arguments;
}

}  // namespace

Expected<std::unique_ptr<InvariantLinear>> InvariantLinear::Create(CudaType type, int device,
                                                                   const CudaStream& stream,
                                                                   LinearKernels kernels) {
  std::unique_ptr<InvariantLinear> linear(new InvariantLinear(type, stream));
  if (kernels == LinearKernels::kPortable) return linear;
  DECANT_ASSIGN_OR_RETURN(const DeviceBuffer scratch,
                          DeviceBuffer::Allocate(sizeof(int32_t), "preparing linear layers"));
  if (!LinearKernelsRun(scratch.As<int32_t>())) return linear;
  linear->kernels_ = LinearKernels::kBest;
  DECANT_RETURN_IF_ERROR(linear->Prepare(device));
  return linear;
}

Status InvariantLinear::Prepare(int device) {
  DECANT_RETURN_IF_ERROR(CudaStatus(
      cudaDeviceGetAttribute(&device_.multiprocessors, cudaDevAttrMultiProcessorCount, device),
      "describing the device"));
  device_.pairs = device_.multiprocessors / 2;
  for (int32_t tile = 0; tile < static_cast<int32_t>(kLinearTiles.size()); ++tile) {
    const void* kernel = LinearKernel(type_, tile);
    DECANT_RETURN_IF_ERROR(
        CudaStatus(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        kLinearSharedBytes),
                   "preparing linear layers"));
    if (kLinearTiles[tile].multicast == 1) continue;
    LinearPlan pair;
    pair.tile = tile;
    pair.blocks = device_.multiprocessors / 2 * 2;
    pair.cluster = kLinearTiles[tile].multicast;
    pair.shared_bytes = kLinearSharedBytes;
    const LaunchConfig launch(pair, stream_.get());
    int pairs = 0;
    DECANT_RETURN_IF_ERROR(CudaStatus(
        cudaOccupancyMaxActiveClusters(&pairs, kernel, &launch.config), "preparing linear layers"));
    device_.pairs = std::min(device_.pairs, pairs);
  }
  const auto blocks = static_cast<size_t>(device_.multiprocessors);
  DECANT_ASSIGN_OR_RETURN(
      handed_over_, DeviceBuffer::Allocate(blocks * kMaxHandOverBytes, "linear layers' workspace"));
  DECANT_ASSIGN_OR_RETURN(
      handed_flags_,
      DeviceBuffer::Allocate(blocks * kMaxGroups * sizeof(uint32_t), "linear layers' workspace"));
  return CudaStatus(FillDevice(handed_flags_.data(), 0, handed_flags_.size()), "clearing memory");
}

std::string InvariantLinear::Describe() const {
  return kernels_ == LinearKernels::kBest ? "invariant linear layers"
                                          : "invariant linear layers of compute capability 8.0";
}

Expected<PackedWeight> InvariantLinear::Pack(const void* elements, int64_t rows, int64_t cols,
                                             int32_t pair_distance) const {
  if (cols % 8 != 0) {
    return Error(StatusCode::kUnimplemented,
                 "a weight of {} columns is not supported on CUDA: they must be a multiple of 8",
                 cols);
  }
  DECANT_CHECK(pair_distance % 8 == 0 && (pair_distance == 0 || rows % (2 * pair_distance) == 0),
               "{} rows in pairs {} apart", rows, pair_distance);
  PackedWeight weight;
  weight.rows = Narrow<int32_t>(rows);
  weight.cols = Narrow<int32_t>(cols);
  weight.pair_distance = pair_distance;
  DECANT_ASSIGN_OR_RETURN(
      weight.buffer,
      DeviceBuffer::Allocate(static_cast<size_t>(PackedLinearBytes(rows, cols)), "weights"));
  LaunchPackLinear(elements, weight.rows, weight.cols, pair_distance, weight.buffer.data(),
                   stream_.get());
  DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "packing weights"));
  return weight;
}

LinearPlan InvariantLinear::Plan(const PackedWeight& weight, LinearFinish finish, int32_t tokens) {
  LinearProblem problem = ProblemOf(weight, finish, TokenStep(tokens));
  auto& choices = chosen_[{weight.rows, weight.cols, problem.token_rows_unit}];
  auto choice = choices.find(problem.tokens);
  if (choice == choices.end()) {
    const std::vector<LinearChoice> ranked = RankLinearChoices(problem, device_);
    DECANT_CHECK(!ranked.empty(), "no plan for a weight of {} x {} and {} tokens", weight.rows,
                 weight.cols, tokens);
    choice = choices.emplace(problem.tokens, ranked.front()).first;
  }
  problem.tokens = tokens;
  const auto plan = PlanLinearWith(choice->second.tile, choice->second.room, problem, device_);
  DECANT_CHECK(plan.has_value(), "a tile that suits {} tokens does not suit {}", choice->first,
               tokens);
  return *plan;
}

InvariantLinear::TuneRoom::Sizes InvariantLinear::TuneRoom::For(
    const std::vector<TuneCase>& cases) {
  Sizes sizes;
  for (const TuneCase& tune : cases) {
    const PackedWeight& first = *tune.weights.front();
    const auto tokens = static_cast<size_t>(tune.max_tokens);
    const size_t outputs = tokens * static_cast<size_t>(first.rows);
    const size_t part_bytes = tokens * sizeof(float);
    sizes.input = std::max(sizes.input, tokens * static_cast<size_t>(first.cols) * 2);
    const size_t output = tune.finish == LinearFinish::kArgmax
                              ? tokens * ArgmaxParts(first.rows) * sizeof(ArgmaxPart)
                              : outputs * sizeof(float);
    sizes.output = std::max(sizes.output, output);
    sizes.squares = std::max(sizes.squares, part_bytes * SquareParts(first.cols));
    if (tune.finish != LinearFinish::kResidual) continue;
    sizes.rounded = std::max(sizes.rounded, outputs * 2);
    sizes.squares = std::max(sizes.squares, part_bytes * SquareParts(first.rows));
  }
  return sizes;
}

Expected<double> InvariantLinear::Measure(const TuneCase& tune, const LinearPlan& plan,
                                          int32_t tokens, const TuneRoom& room) {
  constexpr int kRepeats = 3;
  // Weights that were not read lately, as in a step.
  const size_t products = std::clamp<size_t>(tune.weights.size(), 3, 8);
  const LinearInput input{
      .elements = room.input,
      .squares = tune.finish == LinearFinish::kResidual ? nullptr : room.form.squares,
      .epsilon = 1};
  const ProductResult result{.finish = tune.finish, .output = room.output, .form = room.form};
  Status status;
  const auto run = [&] {
    for (size_t i = 0; i < products && status.ok(); ++i) {
      status = RunPlan(plan, *tune.weights[i % tune.weights.size()], input, tokens, result);
    }
  };
  run();
  DECANT_RETURN_IF_ERROR(status);
  DECANT_RETURN_IF_ERROR(stream_.Synchronize());
  DECANT_ASSIGN_OR_RETURN(const CudaGraph graph, CudaGraph::Record(stream_, run));
  DECANT_RETURN_IF_ERROR(status);
  DECANT_ASSIGN_OR_RETURN(const CudaEvent begin, CudaEvent::Create());
  DECANT_ASSIGN_OR_RETURN(const CudaEvent end, CudaEvent::Create());
  double best = 0;
  for (int i = 0; i < kRepeats; ++i) {
    DECANT_RETURN_IF_ERROR(begin.Record(stream_));
    DECANT_RETURN_IF_ERROR(graph.Launch(stream_));
    DECANT_RETURN_IF_ERROR(end.Record(stream_));
    DECANT_RETURN_IF_ERROR(end.Wait());
    const double seconds = end.SecondsSince(begin);
    if (i == 0 || seconds < best) best = seconds;
  }
  return best;
}

Status InvariantLinear::TuneOne(const TuneCase& tune, int32_t tokens, const TuneRoom& room) {
  const PackedWeight& first = *tune.weights.front();
  const LinearProblem problem = ProblemOf(first, tune.finish, tokens);
  double best = 0;
  double best_of_others = 0;
  const auto choose = [&](int32_t unit, const LinearChoice& choice, double seconds, double& least) {
    if (least != 0 && seconds >= least) return;
    least = seconds;
    chosen_[{first.rows, first.cols, unit}][TokenStep(tokens)] = choice;
  };
  for (const LinearChoice& candidate : TuneCandidates(problem, device_)) {
    const auto plan = PlanLinearWith(candidate.tile, candidate.room, problem, device_);
    DECANT_ASSIGN_OR_RETURN(const double seconds, Measure(tune, *plan, tokens, room));
    if (problem.token_rows_unit != 0) choose(problem.token_rows_unit, candidate, seconds, best);
    // Also for finishes that kTokenRows does not suit.
    if (!kLinearTiles[candidate.tile].token_rows()) {
      choose(0, candidate, seconds, best_of_others);
    }
  }
  return {};
}

Status InvariantLinear::Tune(const std::vector<TuneCase>& cases, const TuneRoom& room) {
  if (kernels_ == LinearKernels::kPortable) return {};
  chosen_.clear();
  for (const TuneCase& tune : cases) {
    for (const int32_t tokens : kTokenSteps) {
      DECANT_RETURN_IF_ERROR(TuneOne(tune, std::min(tokens, tune.max_tokens), room));
      if (tokens >= tune.max_tokens) break;
    }
  }
  return {};
}

Status InvariantLinear::Run(const PackedWeight& weight, const LinearInput& input, int32_t tokens,
                            const ProductResult& result) {
  if (kernels_ == LinearKernels::kBest) {
    return RunPlan(Plan(weight, result.finish, tokens), weight, input, tokens, result);
  }
  LinearArguments arguments = ArgumentsOf(weight, input, tokens, result);
  arguments.cut.column_blocks = CeilDiv(weight.cols, kLinearBlock);
  arguments.cut.splits = LinearSplits(weight.rows, weight.cols);
  LaunchPortableLinear(type_, arguments, input.elements, stream_.get());
  return CudaStatus(cudaGetLastError(), "a linear layer");
}

Status InvariantLinear::RunPlan(const LinearPlan& plan, const PackedWeight& weight,
                                const LinearInput& input, int32_t tokens,
                                const ProductResult& result) const {
  const LinearTile& tile = kLinearTiles[plan.tile];
  if (plan.waits && plan.blocks > ResidentWorkers(tile, device_) * tile.multicast) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} blocks that wait for each other are not all resident on this device",
                 plan.blocks);
  }
  DECANT_CHECK(
      !tile.token_rows() ||
          tile.has_token_rows(TokenRowsUnit(result.finish, weight.rows, weight.pair_distance)),
      "a plan whose tiles have tokens as rows, for finish {}", static_cast<int>(result.finish));
  DECANT_ASSIGN_OR_RETURN(CUtensorMap map, DescribeInput(type_, input.elements, tokens, weight.cols,
                                                         tile.copy_tokens()));
  LinearArguments arguments = ArgumentsOf(weight, input, tokens, result);
  arguments.cut = plan.cut;
  arguments.stages = plan.stages;
  arguments.streams_weight = plan.streams_weight;
  arguments.merges_in_ring = plan.merges_in_ring;
  arguments.handed_over = handed_over_.data();
  arguments.handed_flags = handed_flags_.As<uint32_t>();
  const LaunchConfig launch(plan, stream_.get());
  std::array<void*, 2> parameters = {&map, &arguments};
  return CudaStatus(
      cudaLaunchKernelExC(&launch.config, LinearKernel(type_, plan.tile), parameters.data()),
      "a linear layer");
}

}  // namespace decant
