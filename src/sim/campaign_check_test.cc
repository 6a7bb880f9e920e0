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

TEST(CampaignCheck, TheDeviceFilePredictsEveryRunWithinFivePercent) {
  const StepTimeParameters device = ReadDevice(kSource / "data/devices/h200.json").value();
  const std::vector<CampaignPoint> points = ReadCampaign(kSource / "results/h200").value();
  EXPECT_GT(points.size(), 50);
  for (const CampaignPoint& point : points) {
    const CampaignPrediction prediction =
        Predict(point, device, kSource / "tests/data/traces").value();
    EXPECT_NEAR(prediction.value / point.measured, 1, 0.05)
        << point.source << " " << point.workload << point.trace << " at " << point.rate;
  }
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
