#include "bench/step_summary.h"

#include <gtest/gtest.h>

#include "bench/quantile.h"
#include "bench/text_table.h"

namespace decant {
namespace {

TEST(QuantileTest, Interpolates) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(Median(values), 2.5);
  EXPECT_DOUBLE_EQ(Quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(Quantile(values, 1), 4);
  EXPECT_DOUBLE_EQ(Quantile(values, 0.99), 3.97);
  EXPECT_DOUBLE_EQ(Median(std::vector<double>{7}), 7);
}

TEST(TextTableTest, AlignsColumns) {
  TextTable table({"name", "x"});
  table.AddRow({"é", "12.5"});
  table.AddRow({"longer", "1"});
  EXPECT_EQ(table.ToString(),
            "name       x\n"
            "------------\n"
            "é       12.5\n"
            "longer     1\n");
}

TEST(StepSummaryTest, PutsTimesBesideTheirFloors) {
  const MachineRates rates = {.bytes_per_second = 100, .operations_per_second = 1000};
  EXPECT_DOUBLE_EQ(rates.FloorSeconds(50, 100), 0.5);
  EXPECT_DOUBLE_EQ(rates.FloorSeconds(50, 2000), 2);

  std::vector<StepRecord> steps;
  for (const double duration : {1.0, 2.0, 3.0}) {
    steps.push_back({.decode_tokens = 4, .duration = duration, .bytes = 100, .operations = 10});
  }
  steps.push_back(
      {.prompt_tokens = 8, .decode_tokens = 2, .duration = 4, .bytes = 100, .operations = 2000});
  const StepSummaries summaries = SummarizeSteps(steps, rates);

  ASSERT_TRUE(summaries.pure_decode);
  EXPECT_EQ(summaries.pure_decode->steps, 3);
  EXPECT_DOUBLE_EQ(summaries.pure_decode->median, 2);
  EXPECT_DOUBLE_EQ(summaries.pure_decode->p99, 2.98);
  EXPECT_DOUBLE_EQ(summaries.pure_decode->floor, 1);
  EXPECT_DOUBLE_EQ(summaries.pure_decode->times_floor, 2);
  EXPECT_TRUE(summaries.pure_decode->memory_bound);
  EXPECT_DOUBLE_EQ(summaries.pure_decode->tokens_per_second, 2);

  ASSERT_TRUE(summaries.loaded);
  EXPECT_EQ(summaries.loaded->steps, 1);
  EXPECT_DOUBLE_EQ(summaries.loaded->floor, 2);
  EXPECT_FALSE(summaries.loaded->memory_bound);
  EXPECT_DOUBLE_EQ(summaries.loaded->tokens_per_second, 2.5);

  const std::string table = StepTable(std::vector<LabelledSteps>{{"8 rows", summaries}});
  EXPECT_NE(table.find("8 rows  pure decode      3    2000.00  2980.00   1000.00     2.00"),
            std::string::npos)
      << table;
  EXPECT_NE(ToJson(*summaries.loaded).ToString().find("\"bound_by\": \"operations\""),
            std::string::npos);

  EXPECT_FALSE(SummarizeSteps({}, rates).pure_decode);
}

TEST(HostSummaryTest, AddsUpAllButTheWait) {
  const std::vector<StepRecord> steps = {
      {.decode_tokens = 4, .plan = 1e-6, .launch = 30e-6, .wait = 5e-3, .deliver = 4e-6},
      {.decode_tokens = 4, .plan = 3e-6, .launch = 20e-6, .wait = 5e-3, .deliver = 8e-6},
      {.decode_tokens = 4, .plan = 2e-6, .launch = 40e-6, .wait = 5e-3, .deliver = 6e-6},
      {.prompt_tokens = 512, .plan = 10e-6, .launch = 90e-6, .wait = 0, .deliver = 0},
  };
  const HostSummaries host = SummarizeHost(steps);
  ASSERT_TRUE(host.pure_decode && host.loaded);
  EXPECT_EQ(host.pure_decode->steps, 3);
  EXPECT_EQ(HostText(host),
            "host's part of a step: pure decode 35 us (p99 48; plan 2, launch 30, deliver 6), "
            "loaded 100 us (p99 100; plan 10, launch 90, deliver 0)\n");
  EXPECT_NE(ToJson(host).ToString().find("\"loaded\": {\"steps\": 1"), std::string::npos)
      << ToJson(host).ToString();
  EXPECT_FALSE(SummarizeHost(std::span(steps).first(3)).loaded);
}

TEST(IdleSummaryTest, CountsGapsInWhichThereWasWork) {
  const std::vector<StepRecord> steps = {
      {.device = 3, .follows = false, .idle = 100},  // after a wait for a request
      {.device = 2, .follows = true, .idle = 0.5},
      {.device = 2, .follows = true, .idle = 0.3},
      {.device = 2, .follows = true, .idle = 0.2},
  };
  const IdleSummary idle = SummarizeIdle(steps);
  EXPECT_EQ(idle.gaps, 3);
  EXPECT_DOUBLE_EQ(idle.median, 0.3);
  EXPECT_DOUBLE_EQ(idle.share, 0.1);
  EXPECT_EQ(IdleText({.gaps = 3, .median = 12.5e-6, .share = 0.011}),
            "device idle between steps: 1.10% of its time, median 12.5 us (3 gaps)\n");
  EXPECT_EQ(SummarizeIdle(std::span(steps).first(1)).gaps, 0);
  EXPECT_EQ(SummarizeIdle({}).share, 0);
}

}  // namespace
}  // namespace decant
