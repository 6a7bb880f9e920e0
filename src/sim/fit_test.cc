#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "sim/device_file.h"
#include "sim/least_squares.h"
#include "sim/measured_steps.h"
#include "sim/named_workload.h"
#include "sim/result_table.h"
#include "sim/step_time_fit.h"
#include "sim/test_device.h"

namespace decant {
namespace {

const std::string kResults = std::string(DECANT_SOURCE_DIR) + "/results/h200/";

TEST(LeastSquares, FindsWeightsAndKeepsThemAboveZero) {
  LeastSquares exact(2);
  LeastSquares negative(2);
  for (const double x : {1.0, 2.0, 3.0, 5.0}) {
    exact.Add(std::array{1.0, x}, 2 + 3 * x);
    negative.Add(std::array{1.0, x}, 4 - x);
  }
  EXPECT_NEAR(exact.Solve()[0], 2, 1e-9);
  EXPECT_NEAR(exact.Solve()[1], 3, 1e-9);
  EXPECT_NEAR(negative.Solve()[0], 4 - 11 / 4.0, 1e-9);  // the mean, without a slope
  EXPECT_EQ(negative.Solve()[1], 0);
}

TEST(LeastSquares, LeavesOutWhatCannotBeTold) {
  LeastSquares twice(2);
  for (const double x : {1.0, 2.0}) twice.Add(std::array{x, 2 * x}, 6 * x);
  const std::vector<double> weights = twice.Solve();
  EXPECT_NEAR(weights[0] + 2 * weights[1], 6, 1e-9);
}

TEST(DeviceFile, ReadsWhatItWrote) {
  StepTimeParameters device = TestDevice(true);
  device.pool_slots = 4096;
  device.narrow_page_seconds = 1e-4;
  device.decode[1].wave_seconds = 3e-9;
  const StepTimeParameters read = ParseDevice(DeviceText(device, "a test")).value();
  EXPECT_EQ(read.device, "test");
  EXPECT_TRUE(read.one_step_in_flight);
  EXPECT_EQ(read.pool_slots, 4096);
  EXPECT_DOUBLE_EQ(read.narrow_page_seconds, 1e-4);
  EXPECT_DOUBLE_EQ(read.linear[1].seconds, device.linear[1].seconds);
  EXPECT_EQ(read.decode[1].kernel, SimulatedKernel::kFlash);
  EXPECT_DOUBLE_EQ(read.decode[1].wave_seconds, 3e-9);
}

TEST(DeviceFile, NamesWhatIsWrong) {
  const std::string good = DeviceText(TestDevice(true), "a test");
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ParseDevice(text).status().message();
  };
  EXPECT_NE(refusal("\"host_ms\"", "\"hostess_ms\"").find("host_ms is missing"), std::string::npos);
  EXPECT_NE(refusal("\"rows\"", "\"columns\"").find("allowed: rows, flash, split"),
            std::string::npos);
  EXPECT_NE(refusal("\"tokens\": 8", "\"tokens\": \"8\"").find("tokens is"), std::string::npos);
  EXPECT_EQ(ParseDevice("[").status().code(), StatusCode::kDataLoss);
}

TEST(ResultTable, RefusesARowThatIsCutShort) {
  const ResultTable table = ResultTable::Parse("a,b\n1,x\n2.5,\n").value();
  EXPECT_EQ(table.Integer(0, "a").value(), 1);
  EXPECT_EQ(table.Number(1, "b").value(), 0);
  EXPECT_EQ(table.Integer(1, "a").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(table.Number(0, "b").status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(ResultTable::Parse("a,b\n1\n").status().code(), StatusCode::kDataLoss);
}

TEST(NamedWorkload, ReadsTheNamesThatRowsHave) {
  EXPECT_EQ(ParseWorkloadName("mixed seed 7")->seed, 7);
  EXPECT_EQ(ParseWorkloadName("p256 scale 0.5")->prompt_lengths, std::vector<int32_t>{256});
  EXPECT_EQ(ParseWorkloadName("p256 scale 0.5")->scale, 0.5);
  for (const char* wrong : {"", "trace", "mixed seed 7x", "p0", "p256 scale"}) {
    EXPECT_FALSE(ParseWorkloadName(wrong).ok()) << wrong;
  }
}

TEST(StepTimeFit, FindsTheDeviceThatMadeTheSteps) {
  StepTimeParameters device = TestDevice(true);
  device.linear = {{.tokens = 1, .seconds = 1e-3},
                   {.tokens = 32, .seconds = 1.1e-3},
                   {.tokens = 512, .seconds = 4e-3}};
  device.step_seconds = 2e-4;
  device.row_seconds = 1e-6;
  device.prompt_seconds = 5e-4;
  device.prompt_longest_seconds = 1e-6;
  device.decode[0].step_seconds = 1e-4;
  device.decode[0].longest_seconds = 1e-6;
  const StepTimeModel model = StepTimeModel::Create(device, SimulatedKernel::kRows, 64).value();
  MeasuredSteps measured{
      .name = "test", .device = "test", .kernel = SimulatedKernel::kRows, .page_size = 64};
  std::mt19937 random(0);
  for (int i = 0; i < 400; ++i) {
    StepWork work;
    work.decode_tokens = static_cast<int32_t>(random() % 32);
    work.longest_decode_context = work.decode_tokens * static_cast<int32_t>(random() % 100);
    work.prompt_tokens = i % 2 == 0 ? static_cast<int32_t>(random() % 512) : 0;
    work.longest_prompt_context = work.prompt_tokens * static_cast<int32_t>(1 + random() % 5);
    work.prompt_pairs = 1e3 * static_cast<double>(random() % 1000) * (work.prompt_tokens > 0);
    work.rows = work.decode_tokens + (work.prompt_tokens > 0);
    const StepTime time = model.Of(work);
    measured.steps.push_back({.work = work,
                              .linear = time.linear,
                              .prompt_attention = time.prompt_attention,
                              .decode_attention = time.decode_attention,
                              .rest = time.rest});
  }
  const std::vector<MeasuredSteps> runs = {measured};
  const StepTimeFit fit = FitStepTimes({.steps = runs}).value();
  EXPECT_NEAR(fit.parameters.step_seconds, 2e-4, 1e-9);
  EXPECT_NEAR(fit.parameters.prompt_longest_seconds, 1e-6, 1e-11);
  EXPECT_NEAR(fit.parameters.decode[0].longest_seconds, 1e-6, 1e-11);
  for (const FitResidual& residual : fit.residuals) {
    EXPECT_LT(residual.p90_error, 1e-6) << residual.what;
  }
}

TEST(MeasuredSteps, AReplayAgreesWithEveryRowOfTheCampaign) {
  const MeasuredSteps steps = ReadMeasuredSteps(kResults + "steps/flash/steps.csv").value();
  EXPECT_EQ(steps.steps.size(), 1401);
  EXPECT_EQ(steps.kernel, SimulatedKernel::kFlash);
  EXPECT_GT(steps.timing_seconds, 0);
}

}  // namespace
}  // namespace decant
