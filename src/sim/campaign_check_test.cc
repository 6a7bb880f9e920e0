#include "sim/campaign_check.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "sim/device_file.h"
#include "sim/measured_steps.h"
#include "sim/step_time_fit.h"

namespace decant {
namespace {

const std::filesystem::path kSource = DECANT_SOURCE_DIR;

// The preset decant has linear layers of its own, and so a device file of its own. Both were fitted
// to steps of up to 544 tokens, so runs with larger chunks are not predicted.
TEST(CampaignCheck, TheDeviceFilesPredictEveryRunWithinFivePercent) {
  const StepTimeParameters library = ReadDevice(kSource / "data/devices/h200.json").value();
  const StepTimeParameters ours = ReadDevice(kSource / "data/devices/h200-decant.json").value();
  const std::vector<CampaignPoint> points = ReadCampaign(kSource / "results/h200").value();
  int32_t of_library = 0;
  int32_t of_ours = 0;
  for (const CampaignPoint& point : points) {
    if (point.engine.chunk_tokens > 512) continue;
    const bool is_ours = point.kernel == SimulatedKernel::kSplit;
    ++(is_ours ? of_ours : of_library);
    const CampaignPrediction prediction =
        Predict(point, is_ours ? ours : library, kSource / "tests/data/traces").value();
    EXPECT_NEAR(prediction.value / point.measured, 1, 0.05)
        << point.source << " " << point.workload << point.trace << " at " << point.rate;
  }
  EXPECT_GT(of_library, 50);
  EXPECT_GE(of_ours, 10);
}

TEST(CampaignCheck, StepsAlonePredictAnotherDraw) {
  const std::vector<MeasuredSteps> steps = {
      ReadMeasuredSteps(kSource / "results/h200/steps/fused/steps.csv").value()};
  const StepTimeParameters device =
      FitStepTimes({.steps = steps, .pool_slots = 1 << 20}).value().parameters;
  int32_t other_draws = 0;
  const std::vector<CampaignPoint> points = ReadCampaign(kSource / "results/h200").value();
  for (const CampaignPoint& point : points) {
    if (point.source != "seeds/arrivals.csv" || point.kernel != SimulatedKernel::kRows) continue;
    ++other_draws;
    const CampaignPrediction prediction = Predict(point, device, "").value();
    EXPECT_NEAR(prediction.value / point.measured, 1, 0.03) << point.workload;
  }
  EXPECT_EQ(other_draws, 10);
}

TEST(CampaignCheck, SaysWhatIsMissing) {
  const Status status = ReadCampaign(kSource / "docs").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("closed/*/runs.csv"), std::string::npos);
}

}  // namespace
}  // namespace decant
