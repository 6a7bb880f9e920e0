#include "bench/kernel_bench.h"

#include <gtest/gtest.h>

#include <numeric>

#include "ops/cpu/cpu_ops.h"
#include "ops/forwarding_ops.h"

namespace decant {
namespace {

constexpr double kBytesPerSecond = 1e9;
constexpr double kOperationsPerSecond = 1e6;

/// The CPU's operations on a machine whose rates are known.
class KnownRates : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  double MeasureBandwidth() override { return kBytesPerSecond; }
  double MeasureRate() override { return kOperationsPerSecond; }
};

/// On a device that overlaps kernels, where `split` has a prompt kernel of its own.
class OverlappingOps : public ForwardingOps {
 public:
  OverlappingOps(std::unique_ptr<Ops> inner, PromptKernel prompt, std::vector<KernelOverlap>* asked)
      : ForwardingOps(std::move(inner)), prompt_(prompt), asked_(asked) {}
  bool OverlapsKernels() const override { return true; }
  DecodeKernel decode_kernel() const override { return kernel_; }
  Status UseDecodeKernel(DecodeKernel kernel) override {
    kernel_ = kernel;
    return {};
  }
  std::string_view prompt_kernel() const override {
    if (prompt_ == PromptKernel::kFlash) return "flash";
    return kernel_ == DecodeKernel::kSplit ? "ranged" : "prompt";
  }
  Expected<std::vector<double>> MeasureSeconds(const std::function<void()>& calls, int32_t repeats,
                                               KernelOverlap overlap) override {
    asked_->push_back(overlap);
    return ForwardingOps::MeasureSeconds(calls, repeats, overlap);
  }

 private:
  DecodeKernel kernel_ = DecodeKernel::kRows;
  const PromptKernel prompt_;
  std::vector<KernelOverlap>* asked_;
};

Expected<std::unique_ptr<Ops>> MakeCpuOps(const OpsSpec& spec) {
  auto ops = std::make_unique<CpuOps>(CpuOpsOptions{.shape = spec.shape,
                                                    .decode_kernel = DecodeKernel::kRows,
                                                    .threads = 2,
                                                    .max_tokens = spec.max_tokens,
                                                    .max_samples = spec.max_samples});
  return std::unique_ptr<Ops>(std::make_unique<KnownRates>(std::move(ops)));
}

constexpr KernelShape kSmall{.layers = 3, .heads = 6, .kv_heads = 2, .head_dim = 64};

KernelBenchOptions SmallBench() {
  return {.shape = kSmall,
          .kernels = {{DecodeKernel::kRows, 16}, {DecodeKernel::kSplit, 16}},
          .cases = {UniformCase(40, 2), ChunkCase(8, 30)},
          .repeats = 3};
}

Status Ignore(const KernelResult& /*result*/) { return {}; }

TEST(MixedLengthsTest, AreThoseThatPublishedTimesAreOf) {
  const auto total = [](uint64_t seed, int32_t batch) {
    const std::vector<int32_t> lengths = MixedLengths(seed, batch);
    EXPECT_EQ(std::ssize(lengths), batch);
    return std::accumulate(lengths.begin(), lengths.end(), 0);
  };
  EXPECT_EQ(total(0, 8), 16222);
  EXPECT_EQ(total(0, 32), 49117);
  EXPECT_EQ(total(0, 64), 95122);
  EXPECT_EQ(total(1, 32), 31424);
  EXPECT_EQ(MixedLengths(0, 4), (std::vector<int32_t>{1131, 82, 4220, 1101}));
}

TEST(KernelBenchTest, TimesEveryCaseWithEveryKernel) {
  std::vector<std::string> told;
  const KernelBenchReport report =
      RunKernelBench(MakeCpuOps, SmallBench(), [&](const KernelResult& result) {
        told.push_back(result.kernel);
        return Status();
      }).value();
  EXPECT_EQ(told, (std::vector<std::string>{"rows", "split", "prompt"}));
  ASSERT_EQ(report.results.size(), 3U);
  for (const KernelResult& result : report.results) {
    EXPECT_GT(result.time.least, 0);
    EXPECT_LE(result.time.least, result.time.median);
    EXPECT_LE(result.time.median, result.time.most);
  }
  EXPECT_TRUE(report.notes.empty());
}

TEST(KernelBenchTest, CountsBytesAndOperationsAndTheirFloor) {
  const std::vector<KernelResult> results =
      RunKernelBench(MakeCpuOps, SmallBench(), Ignore).value().results;
  // Two rows of 40 positions; K and V of two heads of 64 in bf16.
  EXPECT_EQ(results[0].tokens, 80);
  EXPECT_EQ(results[0].time.bytes, 80 * 2 * 2 * 64 * 2);
  // q . k and p . v: two multiply-adds for each position, query head and dim.
  EXPECT_EQ(results[0].time.operations, 80 * 6 * 64 * 4);
  EXPECT_EQ(results[0].floor, results[0].time.bytes / kBytesPerSecond);
  EXPECT_EQ(results[0].lengths, "40");
  EXPECT_EQ(results[0].batch, 2);
  // Queries at positions 30 to 37 see 31 to 38 keys.
  EXPECT_EQ(results[2].tokens, 38);
  EXPECT_EQ(results[2].time.bytes, 38 * 2 * 2 * 64 * 2);
  EXPECT_EQ(results[2].time.operations, (31 + 32 + 33 + 34 + 35 + 36 + 37 + 38) * 6 * 64 * 4);
  EXPECT_EQ(results[2].floor, results[2].time.operations / kOperationsPerSecond);
  EXPECT_EQ(results[2].lengths, "8 after 30");
}

TEST(KernelBenchTest, TimesWithAndWithoutOverlapAndEachPromptKernelOnce) {
  std::vector<KernelOverlap> asked;
  const OpsFactory overlapping = [&](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    DECANT_ASSIGN_OR_RETURN(std::unique_ptr<Ops> ops, MakeCpuOps(spec));
    return std::unique_ptr<Ops>(
        std::make_unique<OverlappingOps>(std::move(ops), spec.prompt_kernel, &asked));
  };
  KernelBenchOptions options = SmallBench();
  options.kernels.push_back({DecodeKernel::kFlash, 16});
  const auto names = [](const std::vector<KernelResult>& results) {
    std::vector<std::string> all;
    all.reserve(results.size());
    for (const KernelResult& result : results) {
      all.push_back(result.kernel + " " + std::string(OverlapName(result.overlap)));
    }
    return all;
  };
  EXPECT_EQ(names(RunKernelBench(overlapping, options, Ignore).value().results),
            (std::vector<std::string>{"rows on", "rows off", "split on", "split off", "flash on",
                                      "flash off", "prompt on", "prompt off", "ranged on",
                                      "ranged off", "flash on", "flash off"}));
  ASSERT_EQ(asked.size(), 12U);
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i], i % 2 == 0 ? KernelOverlap::kAllowed : KernelOverlap::kNone);
  }

  options.overlaps = {KernelOverlap::kNone};
  EXPECT_EQ(names(RunKernelBench(overlapping, options, Ignore).value().results),
            (std::vector<std::string>{"rows off", "split off", "flash off", "prompt off",
                                      "ranged off", "flash off"}));

  // Where kernels do not overlap, there is one time, and nothing to choose.
  EXPECT_EQ(names(RunKernelBench(MakeCpuOps, SmallBench(), Ignore).value().results),
            (std::vector<std::string>{"rows n/a", "split n/a", "prompt n/a"}));
  KernelBenchOptions wanted = SmallBench();
  wanted.overlaps = {KernelOverlap::kAllowed};
  const Status refused = RunKernelBench(MakeCpuOps, wanted, Ignore).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("--overlap"), std::string::npos) << refused.message();
}

TEST(KernelBenchTest, AKernelThatRefusesIsANoteUnlessItMustRun) {
  KernelBenchOptions options = SmallBench();
  options.kernels.push_back({DecodeKernel::kFlash, 256});
  const KernelBenchReport report = RunKernelBench(MakeCpuOps, options, Ignore).value();
  EXPECT_EQ(report.results.size(), 3U);
  ASSERT_EQ(report.notes.size(), 1U);
  EXPECT_NE(report.notes[0].find("flash"), std::string::npos);
  options.all_must_run = true;
  EXPECT_EQ(RunKernelBench(MakeCpuOps, options, Ignore).status().code(),
            StatusCode::kUnimplemented);
  options.all_must_run = false;
  options.kernels = {{DecodeKernel::kRows, 0}};
  EXPECT_EQ(RunKernelBench(MakeCpuOps, options, Ignore).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(KernelBenchTest, StopsAtAnErrorOfItsListenerAndAtTooLargeACache) {
  const Status stopped = RunKernelBench(MakeCpuOps, SmallBench(), [](const KernelResult&) {
                           return Status(StatusCode::kDataLoss, "disk full");
                         }).status();
  EXPECT_EQ(stopped.code(), StatusCode::kDataLoss);
  KernelBenchOptions options = SmallBench();
  options.max_cache_bytes = 1000;
  EXPECT_EQ(RunKernelBench(MakeCpuOps, options, Ignore).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(KernelBenchTest, NamesTheFlagOfAShapeThatCannotBe) {
  for (const auto& [shape, name] :
       std::vector<std::pair<KernelShape, std::string>>{{{.heads = 7, .kv_heads = 2}, "--heads"},
                                                        {{.heads = 34, .kv_heads = 2}, "--heads"},
                                                        {{.head_dim = 48}, "--head-dim"}}) {
    const Status status = ValidateKernelShape(shape);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
  EXPECT_TRUE(ValidateKernelShape(KernelShape()).ok());
}

}  // namespace
}  // namespace decant
