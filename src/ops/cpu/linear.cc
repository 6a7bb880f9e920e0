#include "ops/cpu/linear.h"

#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"
#include "ops/cpu/compact_weights.h"
#include "tensor/f16.h"

namespace decant {
namespace {

/// Token counts of a block, smallest first.
constexpr std::array<int32_t, 10> kBlockSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

dnnl::engine& CpuEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::memory::data_type DnnlType(DType dtype) {
  return dtype == DType::kBf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// oneDNN's own threads would change its kernels' cuts with the thread count and fight ours: every
/// thread that calls it, also to create primitives, tells OpenMP to use one.
void UseOneOpenMpThread() {
  thread_local const bool done = [] {
    omp_set_num_threads(1);
    return true;
  }();
  (void)done;
}

void Grow(HostBuffer& buffer, size_t wanted) {
  if (buffer.size() < wanted) buffer = HostBuffer(wanted);
}

/// Whether the source has quantised blocks, and the weight's slices are cut where they end.
bool HasWholeBlocks(const RowSource& source, const SlicedLinear& weight) {
  return source.code_bits != 0 && source.cols % 32 == 0 &&
         std::ranges::all_of(weight.slices(),
                             [](const SlicedLinear::Slice& slice) { return slice.rows % 16 == 0; });
}

}  // namespace

struct PackedSlice {
  dnnl::memory memory;
};

/// The matmuls of one slice shape for every usable block size, with one weight format for all.
class LinearKernel {
 public:
  LinearKernel(int32_t rows, int64_t cols, DType dtype) : rows_(rows), cols_(cols), dtype_(dtype) {
    // The weight format that oneDNN likes for a middling block serves all of them.
    const dnnl::matmul::primitive_desc pattern = Describe(32, std::nullopt);
    weights_desc_ = pattern.weights_desc();
    for (int32_t tokens : kBlockSizes) {
      const dnnl::matmul::primitive_desc desc = Describe(tokens, weights_desc_);
      blocks_.push_back(Block{.tokens = tokens,
                              .matmul = dnnl::matmul(desc),
                              .scratchpad_desc = desc.scratchpad_desc()});
      scratchpad_bytes_ = std::max(scratchpad_bytes_, desc.scratchpad_desc().get_size());
    }
    KeepEqualBlocks();
  }

  int32_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  const dnnl::memory::desc& weights_desc() const { return weights_desc_; }
  size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  size_t packed_bytes() const { return weights_desc_.get_size(); }

  /// The number of tokens of the smallest usable block that holds `tokens`, or of the largest there
  /// is.
  int32_t BlockFor(int32_t tokens) const {
    for (const Block& block : blocks_) {
      if (block.tokens >= tokens) return block.tokens;
    }
    return blocks_.back().tokens;
  }

  dnnl::memory::desc InputDesc(int32_t tokens) const {
    return {{tokens, cols_}, DnnlType(dtype_), dnnl::memory::format_tag::ab};
  }
  dnnl::memory::desc OutputDesc(int32_t tokens) const {
    return {{tokens, rows_}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::ab};
  }

  /// Y = X W^T of one block; input and output have block_tokens rows. oneDNN's own scratchpads
  /// belong to the thread that made a primitive, so the caller brings one.
  void Execute(int32_t block_tokens, const dnnl::stream& stream, const void* input,
               const dnnl::memory& weights, float* output, std::byte* scratchpad) const {
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& candidate) {
      return candidate.tokens == block_tokens;
    });
    DECANT_CHECK(block != blocks_.end(), "no block of {} tokens", block_tokens);
    const dnnl::memory src(InputDesc(block_tokens), CpuEngine(), const_cast<void*>(input));
    const dnnl::memory dst(OutputDesc(block_tokens), CpuEngine(), output);
    const dnnl::memory work(block->scratchpad_desc, CpuEngine(), scratchpad);
    const std::array<dnnl_exec_arg_t, 4> arguments = {{{DNNL_ARG_SRC, src.get()},
                                                       {DNNL_ARG_WEIGHTS, weights.get()},
                                                       {DNNL_ARG_DST, dst.get()},
                                                       {DNNL_ARG_SCRATCHPAD, work.get()}}};
    const dnnl_status_t status = dnnl_primitive_execute(
        block->matmul.get(), stream.get(), static_cast<int>(arguments.size()), arguments.data());
    DECANT_CHECK(status == dnnl_success, "oneDNN matmul failed: {}", static_cast<int>(status));
  }

 private:
  struct Block {
    int32_t tokens = 0;
    dnnl::matmul matmul;
    dnnl::memory::desc scratchpad_desc;
  };

  dnnl::matmul::primitive_desc Describe(int32_t tokens,
                                        const std::optional<dnnl::memory::desc>& weights) const {
    const dnnl::memory::desc any({cols_, rows_}, DnnlType(dtype_), dnnl::memory::format_tag::any);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return {dnnl::matmul::desc(InputDesc(tokens), weights.value_or(any), OutputDesc(tokens)),
            attributes, CpuEngine()};
  }

  /// Runs every block on rows that are all the same and keeps the blocks whose every output row has
  /// the bits of the block of 32 (or, where that one's own rows differ, of a smaller one).
  void KeepEqualBlocks() {
    const dnnl::stream stream(CpuEngine());
    const CounterRng rng(1);
    const auto draw = [&](uint64_t counter) {
      return static_cast<float>(rng.Uniform(counter) * 2 - 1);
    };
    std::vector<float> row(cols_);
    for (int64_t i = 0; i < cols_; ++i) row[i] = draw(i);
    HostBuffer input(kBlockSizes.back() * cols_ * DTypeSize(dtype_));
    for (int32_t token = 0; token < kBlockSizes.back(); ++token) {
      for (int64_t i = 0; i < cols_; ++i) {
        if (dtype_ == DType::kBf16) {
          input.As<Bf16>()[token * cols_ + i] = ToBf16(row[i]);
        } else {
          input.As<float>()[token * cols_ + i] = row[i];
        }
      }
    }
    std::vector<float> plain(rows_ * cols_);
    for (size_t i = 0; i < plain.size(); ++i) plain[i] = draw(cols_ + i);
    HostBuffer packed(packed_bytes());
    const dnnl::memory weights(weights_desc_, CpuEngine(), packed.data());
    PackInto(plain.data(), stream, weights);

    std::vector<std::vector<float>> first_rows;
    std::vector<bool> consistent;
    HostBuffer scratchpad(scratchpad_bytes_);
    HostBuffer output(int64_t{kBlockSizes.back()} * rows_ * sizeof(float));
    for (const Block& block : blocks_) {
      const std::span<float> y = output.As<float>();
      Execute(block.tokens, stream, input.data(), weights, y.data(), scratchpad.data());
      bool equal = true;
      for (int32_t token = 1; token < block.tokens; ++token) {
        equal = equal && std::memcmp(y.data(), y.data() + static_cast<int64_t>(token) * rows_,
                                     rows_ * sizeof(float)) == 0;
      }
      consistent.push_back(equal);
      first_rows.emplace_back(y.begin(), y.begin() + rows_);
    }
    size_t reference = 5;
    DECANT_CHECK(kBlockSizes[reference] == 32, "the reference block is the one of 32");
    while (reference > 0 && !consistent[reference]) --reference;
    std::vector<Block> kept;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const bool equal = std::memcmp(first_rows[i].data(), first_rows[reference].data(),
                                     rows_ * sizeof(float)) == 0;
      if (consistent[i] && equal) kept.push_back(blocks_[i]);
    }
    blocks_ = std::move(kept);
    DECANT_CHECK(!blocks_.empty(), "the reference block is equal to itself");
  }

 public:
  /// Packs rows [rows, cols] in fp32 into `weights`.
  void PackInto(const float* plain, const dnnl::stream& stream, const dnnl::memory& weights) const {
    const dnnl::memory::desc desc({cols_, rows_}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::ba);
    dnnl::memory source(desc, CpuEngine(), const_cast<float*>(plain));
    dnnl::memory target = weights;
    dnnl::reorder(source, target).execute(stream, source, target);
  }

 private:
  int32_t rows_;
  int64_t cols_;
  DType dtype_;
  dnnl::memory::desc weights_desc_;
  size_t scratchpad_bytes_ = 0;
  std::vector<Block> blocks_;
};

struct LinearEngine::Worker {
  dnnl::stream stream{CpuEngine()};
  HostBuffer output;
  HostBuffer scratchpad;
};

SlicedLinear::SlicedLinear() = default;
SlicedLinear::~SlicedLinear() = default;

LinearEngine::LinearEngine(DType dtype, LinearLayers layers, WeightCopies copies,
                           const CpuKernels& kernels, ThreadPool& pool)
    : dtype_(dtype), layers_(layers), copies_(copies), kernels_(kernels), pool_(pool) {
  for (int i = 0; i < pool.threads(); ++i) workers_.push_back(std::make_unique<Worker>());
}

LinearEngine::~LinearEngine() = default;

const LinearKernel& LinearEngine::KernelFor(int32_t rows, int64_t cols) {
  UseOneOpenMpThread();
  std::unique_ptr<LinearKernel>& kernel = matmuls_[{rows, cols}];
  if (kernel == nullptr) kernel = std::make_unique<LinearKernel>(rows, cols, dtype_);
  return *kernel;
}

std::unique_ptr<SlicedLinear> LinearEngine::Pack(const RowSource& source, int32_t slice_rows) {
  const int64_t rows = source.rows;
  const int64_t cols = source.cols;
  DECANT_CHECK(rows > 0 && cols > 0 && slice_rows > 0, "{} x {} by {}", rows, cols, slice_rows);
  auto weight = std::make_unique<SlicedLinear>();
  weight->cols_ = cols;
  weight->max_slice_rows_ = static_cast<int32_t>(std::min<int64_t>(slice_rows, rows));
  for (int64_t first = 0; first < rows; first += slice_rows) {
    const auto count = static_cast<int32_t>(std::min<int64_t>(slice_rows, rows - first));
    weight->slices_.push_back({.first_row = first, .rows = count});
  }
  for (const std::unique_ptr<Worker>& worker : workers_) {
    Grow(worker->output, size_t{kPadding} * slice_rows * sizeof(float));
  }
  if (layers_ == LinearLayers::kInt8 && HasWholeBlocks(source, *weight)) {
    weight->int8_ = true;
    PackCodes(source, *weight, PackForInt8);
  } else {
    PackLibrary(source, *weight);
    PackCompactCopy(source, *weight);
  }
  return weight;
}

/// Packs every slice as oneDNN wants it.
void LinearEngine::PackLibrary(const RowSource& source, SlicedLinear& weight) {
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (SlicedLinear::Slice& slice : weight.slices_) {
    slice.kernel = &KernelFor(slice.rows, source.cols);
    offsets.push_back(bytes);
    bytes += RoundUp<size_t>(slice.kernel->packed_bytes(), 4096);
  }
  weight.packed_ = HostBuffer(bytes);
  for (size_t i = 0; i < weight.slices_.size(); ++i) {
    SlicedLinear::Slice& slice = weight.slices_[i];
    weight.packed_slices_.push_back(std::make_unique<PackedSlice>(PackedSlice{dnnl::memory(
        slice.kernel->weights_desc(), CpuEngine(), weight.packed_.data() + offsets[i])}));
    slice.packed = weight.packed_slices_.back().get();
  }
  std::vector<std::vector<float>> plain(pool_.threads());
  pool_.Run(static_cast<int64_t>(weight.slices_.size()), [&](int64_t item, int worker) {
    UseOneOpenMpThread();
    const SlicedLinear::Slice& slice = weight.slices_[item];
    plain[worker].resize(static_cast<size_t>(slice.rows) * source.cols);
    source.read(slice.first_row, slice.rows, plain[worker].data());
    slice.kernel->PackInto(plain[worker].data(), workers_[worker]->stream, slice.packed->memory);
  });
  for (const std::unique_ptr<Worker>& worker : workers_) {
    for (const SlicedLinear::Slice& slice : weight.slices_) {
      Grow(worker->scratchpad, slice.kernel->scratchpad_bytes());
    }
  }
}

/// Packs the quantised blocks of every slice by `pack`, PackCompact or its like.
template <typename Packer>
void LinearEngine::PackCodes(const RowSource& source, SlicedLinear& weight, const Packer& pack) {
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (const SlicedLinear::Slice& slice : weight.slices_) {
    offsets.push_back(bytes);
    bytes += RoundUp<size_t>(CompactBytes(slice.rows, source.cols, source.code_bits), 64);
  }
  weight.compact_ = HostBuffer(bytes);
  weight.code_bits_ = source.code_bits;
  struct Blocks {
    std::vector<int8_t> codes;
    std::vector<uint16_t> scales;
    std::vector<uint16_t> offsets;
  };
  std::vector<Blocks> blocks(pool_.threads());
  pool_.Run(static_cast<int64_t>(weight.slices_.size()), [&](int64_t item, int worker) {
    SlicedLinear::Slice& slice = weight.slices_[item];
    Blocks& scratch = blocks[worker];
    scratch.codes.resize(slice.rows * source.cols);
    scratch.scales.resize(scratch.codes.size() / 32);
    scratch.offsets.resize(scratch.scales.size());
    source.read_codes(slice.first_row, slice.rows, scratch.codes.data(), scratch.scales.data(),
                      scratch.offsets.data());
    std::byte* out = weight.compact_.data() + offsets[item];
    pack(slice.rows, source.cols, source.code_bits, scratch.codes.data(), scratch.scales.data(),
         scratch.offsets.data(), out);
    slice.compact = out;
  });
}

void LinearEngine::PackCompactCopy(const RowSource& source, SlicedLinear& weight) {
  const int bits = source.code_bits;
  const auto multiply = bits == 4 ? kernels_.compact_multiply_4 : kernels_.compact_multiply_8;
  if (copies_ != WeightCopies::kKeep || dtype_ != DType::kBf16 || multiply == nullptr ||
      !HasWholeBlocks(source, weight)) {
    return;
  }
  PackCodes(source, weight, PackCompact);
  // oneDNN sums some columns from zero and adds them to the total; how many at a time is its
  // choice.
  for (int32_t chunk_cols : {512, 1024, 2048, 256, 4096, 128, 64, 32}) {
    weight.chunk_cols_ = chunk_cols;
    if (CompactCopyAgrees(weight)) return;
  }
  weight.compact_ = HostBuffer();
  weight.code_bits_ = 0;
  for (SlicedLinear::Slice& slice : weight.slices_) slice.compact = nullptr;
}

bool LinearEngine::CompactCopyAgrees(const SlicedLinear& weight) {
  const int64_t cols = weight.cols();
  const int32_t tokens = kernels_.compact_tokens;
  HostBuffer input((tokens + kPadding) * cols * sizeof(Bf16));
  const CounterRng rng(3);
  for (int64_t i = 0; i < tokens * cols; ++i) {
    input.As<Bf16>()[i] = ToBf16(static_cast<float>(rng.Uniform(i) * 2 - 1));
  }
  std::atomic<bool> agrees{true};
  pool_.Run(static_cast<int64_t>(weight.slices().size()), [&](int64_t item, int worker) {
    UseOneOpenMpThread();
    const SlicedLinear::Slice& slice = weight.slices()[item];
    std::vector<float> compact(static_cast<size_t>(tokens) * slice.rows);
    ComputeCompact(weight, slice, input.As<Bf16>().data(), tokens, compact.data());
    Worker& state = *workers_[worker];
    const std::span<float> output = state.output.As<float>();
    slice.kernel->Execute(slice.kernel->BlockFor(tokens), state.stream, input.data(),
                          slice.packed->memory, output.data(), state.scratchpad.data());
    if (std::memcmp(compact.data(), output.data(), compact.size() * sizeof(float)) != 0) {
      agrees.store(false, std::memory_order_relaxed);
    }
  });
  return agrees.load(std::memory_order_relaxed);
}

void LinearEngine::ComputeCompact(const SlicedLinear& weight, const SlicedLinear::Slice& slice,
                                  const Bf16* input, int32_t tokens, float* output) const {
  const auto multiply =
      weight.code_bits_ == 4 ? kernels_.compact_multiply_4 : kernels_.compact_multiply_8;
  multiply(CompactMultiplyArgs{.packed = slice.compact,
                               .out_rows = slice.rows,
                               .cols = static_cast<int32_t>(weight.cols()),
                               .chunk_cols = weight.chunk_cols_,
                               .input = input,
                               .tokens = tokens,
                               .out = output});
}

/// Rounds the inputs of a use to 8 bits.
void LinearEngine::RoundInputs(const SlicedLinear& weight, TensorView input, int32_t tokens) {
  DECANT_CHECK(input.cols == weight.cols() && input.dtype == dtype_, "input of another shape");
  const auto cols = static_cast<int32_t>(input.cols);
  const int32_t blocks = cols / kInt8Block;
  const auto cells = static_cast<size_t>(tokens) * cols;
  if (input_codes_.size() < cells) {
    input_codes_.resize(cells);
    input_scales_.resize(cells / kInt8Block);
    input_sums_.resize(cells / kInt8Block);
  }
  // A region costs about a microsecond, as much as some rows.
  constexpr int32_t kRowsPerItem = 16;
  pool_.Run(CeilDiv(tokens, kRowsPerItem), [&](int64_t item, int) {
    const auto first = static_cast<int32_t>(item) * kRowsPerItem;
    for (int64_t row = first; row < std::min(tokens, first + kRowsPerItem); ++row) {
      int8_t* codes = input_codes_.data() + row * cols;
      float* scales = input_scales_.data() + row * blocks;
      float* sums = input_sums_.data() + row * blocks;
      if (dtype_ == DType::kBf16) {
        kernels_.quantize_bf16(input.Row<Bf16>(row), cols, codes, scales, sums);
      } else {
        kernels_.quantize_f32(input.Row<float>(row), cols, codes, scales, sums);
      }
    }
  });
}

void LinearEngine::ComputeInt8(const SlicedLinear& weight, const SlicedLinear::Slice& slice,
                               int32_t first, int32_t tokens, float* output) const {
  const auto multiply =
      weight.code_bits_ == 4 ? kernels_.int8_multiply_4 : kernels_.int8_multiply_8;
  const int64_t cols = weight.cols();
  const int64_t blocks = cols / kInt8Block;
  multiply(Int8MultiplyArgs{.packed = slice.compact,
                            .out_rows = slice.rows,
                            .cols = static_cast<int32_t>(cols),
                            .codes = input_codes_.data() + first * cols,
                            .scales = input_scales_.data() + first * blocks,
                            .sums = input_sums_.data() + first * blocks,
                            .tokens = tokens,
                            .out = output});
}

int32_t LinearEngine::BlockTokens(const SlicedLinear& weight, int32_t tokens) const {
  constexpr int32_t kSmall = 32;
  constexpr int32_t kLarge = 256;
  if (tokens <= kSmall) return std::max(tokens, 1);
  const auto slices = static_cast<int32_t>(weight.slices().size());
  int32_t block = kLarge;
  while (block > kSmall && CeilDiv(tokens, block) * slices < 2 * pool_.threads()) block /= 2;
  return block;
}

float* LinearEngine::Compute(const SlicedLinear& weight, const SlicedLinear::Slice& slice,
                             TensorView input, int32_t first, int32_t tokens, int worker) {
  UseOneOpenMpThread();
  DECANT_CHECK(input.cols == weight.cols() && input.dtype == dtype_, "input of another shape");
  const std::byte* rows = input.data + first * input.cols * static_cast<int64_t>(DTypeSize(dtype_));
  Worker& state = *workers_[worker];
  auto* output = reinterpret_cast<float*>(state.output.data());
  if (weight.int8()) {
    ComputeInt8(weight, slice, first, tokens, output);
    return output;
  }
  if (tokens <= kernels_.compact_tokens && slice.compact != nullptr) {
    ComputeCompact(weight, slice, reinterpret_cast<const Bf16*>(rows), tokens, output);
    return output;
  }
  for (int32_t done = 0; done < tokens;) {
    const int32_t block = slice.kernel->BlockFor(tokens - done);
    slice.kernel->Execute(block, state.stream,
                          rows + done * input.cols * static_cast<int64_t>(DTypeSize(dtype_)),
                          slice.packed->memory, output + static_cast<int64_t>(done) * slice.rows,
                          state.scratchpad.data());
    done += block;
  }
  return output;
}

double LinearEngine::MeasureRate() {
  constexpr int32_t kRows = 192;
  constexpr int64_t kCols = 1024;
  constexpr int32_t kSlices = 16;
  constexpr int32_t kTokens = kPadding;
  const CounterRng rng(7);
  RowSource source{.rows = int64_t{kRows} * kSlices,
                   .cols = kCols,
                   .read = [&](int64_t first, int64_t count, float* out) {
                     for (int64_t i = 0; i < count * kCols; ++i) {
                       out[i] = static_cast<float>(rng.Uniform(first * kCols + i) - 0.5);
                     }
                   }};
  if (layers_ == LinearLayers::kInt8) {
    source.code_bits = 4;
    source.read_codes = [&](int64_t first, int64_t count, int8_t* codes, uint16_t* scales,
                            uint16_t* offsets) {
      for (int64_t i = 0; i < count * kCols; ++i) {
        codes[i] = static_cast<int8_t>(rng.Below(first * kCols + i, 16));
      }
      std::fill_n(scales, count * kCols / 32, ToF16(0.0625F).bits);
      std::fill_n(offsets, count * kCols / 32, ToF16(-0.5F).bits);
    };
  }
  const auto weight = Pack(source, kRows);
  HostBuffer input(static_cast<size_t>(kTokens + kPadding) * kCols * DTypeSize(dtype_));
  const TensorView view{.data = input.data(), .dtype = dtype_, .rows = kTokens, .cols = kCols};
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const auto start = std::chrono::steady_clock::now();
    Run(*weight, view, kTokens, [](auto&&...) {});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, 2.0 * kTokens * kRows * kSlices * kCols / seconds.count());
  }
  return best;
}

}  // namespace decant
