#include <gtest/gtest.h>

#include "sim/seed_figures.h"
#include "sim/seed_fit.h"

namespace decant {
namespace {

TEST(SeedFit, MeetsThePublishedStepsAndLayers) {
  for (const double instrumentation : {0.0, 0.05}) {
    const SeedFit fit = FitSeedDevice(instrumentation).value();
    ASSERT_EQ(fit.rows.size(), 8);
    for (const SeedFitRow& row : fit.rows) {
      EXPECT_NEAR(row.model / row.published, 1, 0.01) << row.what;
    }
  }
}

TEST(SeedFigures, TheLibraryKernelServesMoreAndWaitsLess) {
  const StepTimeParameters device = FitSeedDevice(0).value().device;
  for (const SeedRatio& ratio : SeedRatios()) {
    const auto value = [&](size_t figure) {
      return SimulateSeedFigure(SeedFigures()[figure], device, 0).value();
    };
    EXPECT_GT(value(ratio.over) / value(ratio.under), 1.05) << ratio.name;
  }
}

}  // namespace
}  // namespace decant
