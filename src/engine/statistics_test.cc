#include "engine/statistics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace decant {
namespace {

std::vector<uint64_t> StepsOf(const StepHistory& history) {
  std::vector<uint64_t> steps;
  for (const StepRecord& record : history.Records()) steps.push_back(record.step);
  return steps;
}

TEST(StepHistoryTest, KeepsTheLastRecordsInOrder) {
  StepHistory history(3);
  EXPECT_TRUE(history.Records().empty());
  for (uint64_t step = 0; step < 2; ++step) history.Add({.step = step});
  EXPECT_EQ(StepsOf(history), (std::vector<uint64_t>{0, 1}));
  for (uint64_t step = 2; step < 8; ++step) history.Add({.step = step});
  EXPECT_EQ(StepsOf(history), (std::vector<uint64_t>{5, 6, 7}));
  history.Add({.step = 8});
  EXPECT_EQ(StepsOf(history), (std::vector<uint64_t>{6, 7, 8}));
}

TEST(StepHistoryTest, GivesRecordsFromAStepOn) {
  const auto steps_since = [](const StepHistory& history, uint64_t step, size_t most) {
    std::vector<uint64_t> steps;
    for (const StepRecord& record : history.Since(step, most)) steps.push_back(record.step);
    return steps;
  };
  StepHistory history(3);
  EXPECT_TRUE(history.Since(0, 10).empty());
  for (uint64_t step = 0; step < 8; ++step) history.Add({.step = step});
  EXPECT_EQ(steps_since(history, 0, 10), (std::vector<uint64_t>{5, 6, 7}));
  EXPECT_EQ(steps_since(history, 6, 10), (std::vector<uint64_t>{6, 7}));
  EXPECT_EQ(steps_since(history, 5, 2), (std::vector<uint64_t>{5, 6}));
  EXPECT_TRUE(history.Since(8, 10).empty());
  EXPECT_TRUE(history.Since(5, 0).empty());
}

TEST(StepHistoryTest, MayKeepNothing) {
  StepHistory history(0);
  history.Add({.step = 1});
  EXPECT_TRUE(history.Records().empty());
}

TEST(EngineRowsTest, AreHowFarTheSamplesWereAfterTheLastStep) {
  TestEngine engine({.max_batch = 2, .chunk_tokens = 5});
  GenerateRequest request{.prompt = std::vector<Token>(12, 1), .max_new_tokens = 4};
  request.ignore_end_of_text = true;
  std::vector<int32_t> generated;
  request.sink = [&](const StreamUpdate& update) {
    const std::vector<RowProgress> rows = engine->Rows();
    ASSERT_EQ(rows.size(), 1);
    EXPECT_EQ(rows[0].request, update.request);
    EXPECT_EQ(rows[0].prompt_tokens, 12);
    EXPECT_EQ(rows[0].prompt_done, 12);
    EXPECT_EQ(rows[0].budget, 4);
    generated.push_back(rows[0].generated_tokens);
  };
  ASSERT_TRUE(engine->Submit(std::move(request)).ok());
  engine->Drain();
  engine->Stop();
  EXPECT_THAT(generated, ::testing::ElementsAre(0, 1, 2, 3)) << "before each token";
  EXPECT_TRUE(engine->Rows().empty());
}

TEST(EngineStepsTest, AreIdleOnlyWhereAStepFollowsAnother) {
  TestEngine engine({.max_batch = 1, .runner = {.gap = 0.25}});
  GenerateRequest request{.prompt = {1, 2, 3}, .max_new_tokens = 3};
  request.ignore_end_of_text = true;
  request.sink = [](const StreamUpdate&) {};
  ASSERT_TRUE(engine->Submit(std::move(request)).ok());
  engine->Drain();
  engine->Stop();
  std::vector<std::pair<bool, double>> idle;
  for (const StepRecord& step : engine->Steps()) idle.emplace_back(step.follows, step.idle);
  EXPECT_THAT(idle, ::testing::ElementsAre(std::pair(false, 0.0), std::pair(true, 0.25),
                                           std::pair(true, 0.25)));
}

TEST(EngineStatsTest, NoEndCountsBeforeItsStep) {
  TestEngine engine({});
  GenerateRequest request{.prompt = {1, 2, 3}, .max_new_tokens = 3, .samples = 2};
  request.ignore_end_of_text = true;
  std::vector<EngineStats> at_ends;
  request.sink = [&](const StreamUpdate& update) {
    if (update.finish) at_ends.push_back(engine->Stats());
  };
  ASSERT_TRUE(engine->Submit(std::move(request)).ok());
  engine->Drain();
  ASSERT_THAT(at_ends, ::testing::SizeIs(2));
  for (const EngineStats& stats : at_ends) {
    EXPECT_EQ(stats.running, 2) << "both end with one step, which is not counted yet";
    EXPECT_EQ(stats.count(FinishReason::kBudget), 0);
    EXPECT_EQ(stats.generated_tokens, 4);
  }
  EXPECT_EQ(engine->Stats().count(FinishReason::kBudget), 2);
  EXPECT_EQ(engine->Stats().generated_tokens, 6);
}

}  // namespace
}  // namespace decant
