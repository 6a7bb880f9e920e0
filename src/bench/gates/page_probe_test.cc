#include "bench/gates/page_probe.h"

#include <gtest/gtest.h>

#include "bench/gates/faulty_ops.h"
#include "ops/cpu/cpu_ops.h"

namespace decant {
namespace {

Expected<std::unique_ptr<Ops>> MakeCpuOps(const OpsSpec& spec) {
  return std::unique_ptr<Ops>(
      std::make_unique<CpuOps>(CpuOpsOptions{.shape = spec.shape,
                                             .decode_kernel = DecodeKernel::kRows,
                                             .threads = 2,
                                             .max_tokens = spec.max_tokens,
                                             .max_samples = spec.max_samples}));
}

PageProbeOptions Small(std::vector<int32_t> page_sizes) {
  return {.shape = {.layers = 2, .heads = 3, .kv_heads = 1, .head_dim = 64},
          .kernels = {DecodeKernel::kRows, DecodeKernel::kSplit, DecodeKernel::kFlash},
          .page_sizes = std::move(page_sizes),
          .decode_timed = UniformCase(20, 2),
          .prompt_timed = ChunkCase(4, 10),
          .repeats = 2};
}

std::vector<PageProbeResult> Probe(const OpsFactory& make_ops, const PageProbeOptions& options) {
  return RunPageProbe(make_ops, options, [](const PageProbeResult&) { return Status(); }).value();
}

TEST(PageProbeTest, TellsWhatWorksFromWhatIsRefused) {
  const std::vector<PageProbeResult> results = Probe(MakeCpuOps, Small({0, 24, 64, 65537}));
  ASSERT_EQ(results.size(), 16U);
  for (const PageProbeResult& result : results) {
    const bool possible = result.page_size == 24 || result.page_size == 64;
    const bool works = possible && result.kernel != "flash";
    EXPECT_EQ(result.outcome, works ? PageOutcome::kWorks : PageOutcome::kRefused)
        << result.kernel << " " << result.page_size << ": " << result.message;
    EXPECT_EQ(result.message.empty(), works);
    EXPECT_EQ(result.time.has_value(), works);
    EXPECT_EQ(result.largest_difference.has_value(), works);
    if (works) {
      EXPECT_LE(*result.largest_ulps, 2.0);
    } else {
      EXPECT_NE(result.message.find(possible ? "flash" : "1 to 65536"), std::string::npos);
    }
  }
}

TEST(PageProbeTest, FindsAKernelThatIsWrongAndDoesNotTimeIt) {
  const OpsFactory faulty = [](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    return std::unique_ptr<Ops>(std::make_unique<FaultyOps>(
        MakeCpuOps(spec).value(), Fault::kSwapsPages, DecodeKernel::kSplit));
  };
  for (const PageProbeResult& result : Probe(faulty, Small({32}))) {
    if (result.kernel == "flash") continue;
    const bool wrong = result.kernel == "split";
    EXPECT_EQ(result.outcome, wrong ? PageOutcome::kWrong : PageOutcome::kWorks) << result.kernel;
    EXPECT_EQ(result.message.find("rows are off") != std::string::npos, wrong) << result.message;
    EXPECT_EQ(result.time.has_value(), !wrong);
  }
}

TEST(PageProbeTest, ATooLargeCacheIsNotTimed) {
  PageProbeOptions options = Small({64});
  options.max_cache_bytes = 1;
  for (const PageProbeResult& result : Probe(MakeCpuOps, options)) {
    if (result.kernel == "flash") continue;
    EXPECT_EQ(result.outcome, PageOutcome::kWorks);
    EXPECT_NE(result.message.find("not timed"), std::string::npos);
    EXPECT_FALSE(result.time.has_value());
  }
}

}  // namespace
}  // namespace decant
