#include "bench/gates/kernel_gate.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/gates/faulty_ops.h"
#include "ops/cpu/cpu_ops.h"

namespace decant {
namespace {

Expected<std::unique_ptr<Ops>> MakeCpuOps(const OpsSpec& spec) {
  return std::unique_ptr<Ops>(
      std::make_unique<CpuOps>(CpuOpsOptions{.shape = spec.shape,
                                             .threads = 2,
                                             .max_tokens = spec.max_tokens,
                                             .max_samples = spec.max_samples}));
}

OpsFactory Faulty(Fault fault, std::optional<DecodeKernel> kernel = {}) {
  return [fault, kernel](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    return std::unique_ptr<Ops>(
        std::make_unique<FaultyOps>(MakeCpuOps(spec).value(), fault, kernel));
  };
}

KernelGateOptions Small() {
  return {.head_dims = {64},
          .groups = {3},
          .page_sizes = {64},
          .lengths = {1, 2, 63, 65, 129, 500},
          .batches = {4}};
}

bool Mentions(const GateReport& report, const std::string& text) {
  return std::ranges::any_of(report.failures, [&](const std::string& failure) {
    return failure.find(text) != std::string::npos;
  });
}

TEST(KernelGateTest, TheCpuKernelsPass) {
  const GateReport report = RunKernelGate(MakeCpuOps, KernelGateOptions::Quick(), nullptr).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
  EXPECT_GT(report.largest_difference, 0);
  EXPECT_LE(report.largest_ulps, 2.0);
  for (const char* kernel : {"rows", "split", "prompt"}) {
    EXPECT_NE(report.table.find(kernel), std::string::npos);
  }
}

TEST(KernelGateTest, TheCpuKernelsPassAtAnyPageSize) {
  KernelGateOptions options = Small();
  options.page_sizes = {1, 24, 100};
  const GateReport report = RunKernelGate(MakeCpuOps, options, nullptr).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
}

TEST(KernelGateTest, EveryFaultFails) {
  for (const Fault fault :
       {Fault::kDropsLast, Fault::kReadsOneMore, Fault::kSwapsPages, Fault::kNaN}) {
    const GateReport report = RunKernelGate(Faulty(fault), Small(), nullptr).value();
    EXPECT_FALSE(report.passed()) << static_cast<int>(fault);
  }
  EXPECT_TRUE(RunKernelGate(Faulty(Fault::kNone), Small(), nullptr).value().passed());
}

TEST(KernelGateTest, BitsThatDependOnTheBatchFail) {
  KernelGateOptions options = Small();
  options.bit_page_sizes = {64, 16};
  options.bit_chunks = {64};
  EXPECT_TRUE(RunKernelGate(Faulty(Fault::kNone), options, nullptr).value().passed());
  const GateReport report =
      RunKernelGate(Faulty(Fault::kSeesTheBatch, DecodeKernel::kSplit), options, nullptr).value();
  EXPECT_TRUE(Mentions(report, "other bits: decode tokens together, pages of 64"))
      << ToText(report);
  EXPECT_TRUE(Mentions(report, "other bits: prompts together, pages of 16")) << ToText(report);
  EXPECT_FALSE(Mentions(report, "other bits: prompts alone")) << ToText(report);
}

TEST(KernelGateTest, AFaultAtEveryLengthIsSeenInTheKernelThatHasIt) {
  KernelGateOptions options = Small();
  options.lengths = {2, 65, 2049, 8000};
  const GateReport report =
      RunKernelGate(Faulty(Fault::kDropsLast, DecodeKernel::kSplit), options, nullptr).value();
  for (const int32_t length : options.lengths) {
    EXPECT_TRUE(Mentions(report, fmt::format("1 of {} positions", length))) << length;
  }
  EXPECT_TRUE(Mentions(report, "split, "));
  EXPECT_FALSE(Mentions(report, "rows, "));
  EXPECT_FALSE(Mentions(report, "prompt, "));
}

/// A backend without `split`.
class RowsOnly : public ForwardingOps {
 public:
  using ForwardingOps::ForwardingOps;
  Status UseDecodeKernel(DecodeKernel kernel) override {
    if (kernel == DecodeKernel::kRows) return ForwardingOps::UseDecodeKernel(kernel);
    return Error(StatusCode::kUnimplemented, "no such kernel here");
  }
};

TEST(KernelGateTest, AMissingKernelIsANoteUnlessItWasAskedFor) {
  const OpsFactory rows_only = [](const OpsSpec& spec) -> Expected<std::unique_ptr<Ops>> {
    return std::unique_ptr<Ops>(std::make_unique<RowsOnly>(MakeCpuOps(spec).value()));
  };
  KernelGateOptions options = Small();
  const GateReport any = RunKernelGate(rows_only, options, nullptr).value();
  EXPECT_TRUE(any.passed()) << ToText(any);
  ASSERT_FALSE(any.notes.empty());
  EXPECT_NE(any.notes[0].find("no such kernel here"), std::string::npos);
  options.kernels = {DecodeKernel::kSplit};
  EXPECT_FALSE(RunKernelGate(rows_only, options, nullptr).value().passed());
}

TEST(KernelGateTest, NamesWhatIsOutOfRange) {
  for (const auto& [change, name] :
       std::vector<std::pair<std::function<void(KernelGateOptions&)>, std::string>>{
           {[](KernelGateOptions& o) { o.head_dims = {48}; }, "--head-dims"},
           {[](KernelGateOptions& o) { o.groups = {17}; }, "--groups"},
           {[](KernelGateOptions& o) { o.page_sizes = {0}; }, "--page-sizes"},
           {[](KernelGateOptions& o) { o.lengths = {}; }, "--lengths"},
           {[](KernelGateOptions& o) { o.batches = {0}; }, "--batches"}}) {
    KernelGateOptions options = Small();
    change(options);
    const Status status = RunKernelGate(MakeCpuOps, options, nullptr).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(name), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace decant
