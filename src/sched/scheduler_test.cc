#include "sched/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>

namespace decant {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr SchedulerConfig kConfig{
    .max_batch = 4, .chunk_tokens = 8, .limits = {.max_model_len = 64, .vocab_size = 1000}};
constexpr Token kStop = 999;

/// A request with prompt 100 * id, 100 * id + 1, ...
Request MakeRequest(RequestId id, int32_t prompt_len, int32_t budget) {
  Request request{.id = id, .max_new_tokens = budget, .stop_tokens = {kStop}};
  request.prompt.resize(prompt_len);
  std::iota(request.prompt.begin(), request.prompt.end(), static_cast<Token>(100 * id));
  return request;
}

std::string Name(RequestId request, int32_t sample) {
  return sample == 0 ? fmt::format("{}", request) : fmt::format("{}.{}", request, sample);
}

/// "id@row query/context", with ".sample" after the id where it is not 0 and ! where the row
/// samples: the whole of a plan in one string.
std::string Describe(const StepPlan& plan) {
  std::string text;
  for (const PlannedRow& row : plan.rows) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{}@{} {}/{}{}", Name(row.request, row.sample), row.row, row.query_len,
                        row.context_len, row.samples ? "!" : "");
  }
  return text;
}

/// A result of step `step` with a token for each given (request, row).
StepResult Result(uint64_t step, std::vector<SampledToken> tokens) {
  return {.step = step, .tokens = std::move(tokens)};
}

std::vector<std::string> Describe(std::span<const TokenEvent> events) {
  std::vector<std::string> texts;
  for (const TokenEvent& event : events) {
    texts.push_back(fmt::format("{}:{} {}", Name(event.request, event.sample), event.token,
                                event.finish ? FinishReasonName(*event.finish) : "goes on"));
  }
  return texts;
}

TEST(SchedulerTest, ReadsAPromptInChunksThenDecodesToItsBudget) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 11, 2)).ok());

  const StepPlan& first = scheduler.Next();
  EXPECT_EQ(Describe(first), "1@0 8/8");
  EXPECT_THAT(first.rows[0].prompt_tokens, ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_EQ(first.rows[0].pages.size(), 4) << "13 tokens in pages of 4";
  EXPECT_EQ(first.prompt_tokens, 8);
  EXPECT_EQ(first.decode_tokens, 0);
  EXPECT_THAT(scheduler.Commit(Result(0, {})), IsEmpty());

  const StepPlan& second = scheduler.Next();
  EXPECT_EQ(second.step, 1);
  EXPECT_EQ(Describe(second), "1@0 3/11!");
  EXPECT_THAT(second.rows[0].prompt_tokens, ElementsAre(108, 109, 110));
  EXPECT_EQ(second.rows[0].sample_index, 0);
  EXPECT_THAT(Describe(scheduler.Commit(Result(1, {{1, 0, 7}}))), ElementsAre("1:7 goes on"));

  const StepPlan& third = scheduler.Next();
  EXPECT_EQ(Describe(third), "1@0 1/12!");
  EXPECT_THAT(third.rows[0].prompt_tokens, IsEmpty());
  EXPECT_EQ(third.rows[0].sample_index, 1);
  EXPECT_EQ(third.prompt_tokens, 0);
  EXPECT_EQ(third.decode_tokens, 1);
  EXPECT_THAT(Describe(scheduler.Commit(Result(2, {{1, 0, 8}}))), ElementsAre("1:8 budget"));

  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool.free_pages(), 16);
  EXPECT_TRUE(scheduler.Next().empty());
  EXPECT_EQ(scheduler.in_flight(), 0) << "an empty plan is no step";
}

TEST(SchedulerTest, TellsHowFarItsRowsAre) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 11, 2)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 3, 1)).ok());
  std::vector<RowProgress> rows(5);
  scheduler.Progress(rows);
  EXPECT_THAT(rows, IsEmpty()) << "both wait";
  const auto describe = [&] {
    scheduler.Progress(rows);
    std::string text;
    for (const RowProgress& row : rows) {
      text += fmt::format("{}@{} {}/{}+{}/{} ", row.request, row.row, row.prompt_done,
                          row.prompt_tokens, row.generated_tokens, row.budget);
    }
    return text;
  };
  scheduler.Next();
  EXPECT_EQ(describe(), "1@0 8/11+0/2 2@1 0/3+0/1 ");
  scheduler.Commit(Result(0, {}));
  scheduler.Next();
  EXPECT_EQ(describe(), "1@0 11/11+0/2 2@1 3/3+0/1 ");
  scheduler.Commit(Result(1, {{.request = 1, .row = 0, .token = 7}, {.request = 2, .row = 1}}));
  EXPECT_EQ(describe(), "1@0 11/11+1/2 ") << "2 has ended";
}

TEST(SchedulerTest, ChunksGoToTheOldestWhileEveryDecodeTokenRuns) {
  PagePool pool(64, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 3, 9)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 6, 9)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(3, 12, 9)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 3/3!, 2@1 5/5");
  scheduler.Commit(Result(0, {{1, 0, 5}}));
  const StepPlan& plan = scheduler.Next();
  EXPECT_EQ(Describe(plan), "1@0 1/4!, 2@1 1/6!, 3@2 7/7");
  EXPECT_EQ(plan.prompt_tokens, 8);
  EXPECT_EQ(plan.decode_tokens, 1);
  EXPECT_THAT(plan.rows[1].prompt_tokens, ElementsAre(205))
      << "a chunk of one is not a decode token";
}

TEST(SchedulerTest, AnOlderRequestInAHigherRowIsReadFirst) {
  PagePool pool(64, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 1)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 20, 4)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 2/2!, 2@1 6/6");
  scheduler.Commit(Result(0, {{1, 0, 5}}));
  ASSERT_TRUE(scheduler.Submit(MakeRequest(3, 20, 4)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "2@1 8/14");
  scheduler.Commit(Result(1, {}));
  EXPECT_EQ(Describe(scheduler.Next()), "3@0 2/2, 2@1 6/20!");
}

TEST(SchedulerTest, ARequestThatDoesNotFitHoldsUpAllBehindIt) {
  PagePool pool(4, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 4, 1)).ok());  // 2 pages
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 4, 5)).ok());  // 3 pages
  ASSERT_TRUE(scheduler.Submit(MakeRequest(3, 1, 1)).ok());  // 1 page, and free, but behind 2
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 4/4!");
  EXPECT_EQ(scheduler.waiting(), 2);
  scheduler.Commit(Result(0, {{1, 0, 5}}));
  EXPECT_EQ(Describe(scheduler.Next()), "2@0 4/4!, 3@1 1/1!");
}

TEST(SchedulerTest, ATokenInFlightThatFillsTheBudgetIsNotFollowed) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 2)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 2/2!");
  const StepPlan& ahead = scheduler.Next();
  EXPECT_EQ(Describe(ahead), "1@0 1/3!") << "planned without knowing its query";
  EXPECT_EQ(ahead.rows[0].sample_index, 1);
  scheduler.Commit(Result(0, {{1, 0, 5}}));
  EXPECT_TRUE(scheduler.Next().empty());
  EXPECT_FALSE(scheduler.idle());
  EXPECT_EQ(pool.free_pages(), 15);
  EXPECT_THAT(Describe(scheduler.Commit(Result(1, {{1, 0, 6}}))), ElementsAre("1:6 budget"));
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool.free_pages(), 16);
}

TEST(SchedulerTest, WhatFollowsAnEndOfTextInFlightIsDropped) {
  PagePool pool(2, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 5)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 2, 1)).ok());
  scheduler.Next();
  const StepPlan& extra = scheduler.Next();
  EXPECT_THAT(Describe(scheduler.Commit(Result(0, {{1, 0, kStop}}))),
              ElementsAre("1:999 end of text"));
  EXPECT_EQ(scheduler.running(), 0);
  EXPECT_EQ(pool.free_pages(), 0) << "step 1 still reads the pages";
  EXPECT_EQ(extra.rows[0].pages.size(), 2);
  EXPECT_TRUE(scheduler.Next().empty()) << "request 2 must wait for them";
  EXPECT_THAT(scheduler.Commit(Result(1, {{1, 0, 3}})), IsEmpty());
  EXPECT_EQ(pool.free_pages(), 2);
  EXPECT_EQ(Describe(scheduler.Next()), "2@0 2/2!");
}

TEST(SchedulerTest, AnEndOfTextThatFillsTheBudgetIsAnEndOfText) {
  PagePool pool(2, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 1)).ok());
  scheduler.Next();
  EXPECT_THAT(Describe(scheduler.Commit(Result(0, {{1, 0, kStop}}))),
              ElementsAre("1:999 end of text"));
}

TEST(SchedulerTest, ARowIsNotGivenAwayWhileAStepInFlightSamplesForIt) {
  SchedulerConfig config = kConfig;
  config.max_batch = 1;
  PagePool pool(16, 4);
  Scheduler scheduler(config, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 5)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 2, 1)).ok());
  scheduler.Next();
  scheduler.Next();
  scheduler.Commit(Result(0, {{1, 0, kStop}}));
  EXPECT_TRUE(scheduler.Next().empty());
  scheduler.Commit(Result(1, {{1, 0, 3}}));
  EXPECT_EQ(Describe(scheduler.Next()), "2@0 2/2!");
}

TEST(SchedulerTest, ARequestCanEndWaitingRunningAndInFlight) {
  PagePool pool(4, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 9, 3)).ok());  // 3 pages
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 4, 4)).ok());  // 2 pages
  ASSERT_TRUE(scheduler.Submit(MakeRequest(3, 2, 2)).ok());
  const StepPlan& plan = scheduler.Next();
  EXPECT_EQ(Describe(plan), "1@0 8/8");

  EXPECT_TRUE(scheduler.End(2)) << "waiting";
  EXPECT_FALSE(scheduler.End(2));
  EXPECT_TRUE(scheduler.End(1)) << "in flight";
  EXPECT_FALSE(scheduler.End(1)) << "ended, though its pages are not back";
  EXPECT_EQ(pool.free_pages(), 1);
  EXPECT_THAT(plan.rows[0].prompt_tokens, ElementsAre(100, 101, 102, 103, 104, 105, 106, 107));
  EXPECT_EQ(plan.rows[0].pages.size(), 3);
  EXPECT_FALSE(scheduler.Submit(MakeRequest(1, 2, 2)).ok()) << "its row is not free yet";

  EXPECT_EQ(Describe(scheduler.Next()), "3@1 2/2!");
  EXPECT_THAT(scheduler.Commit(Result(0, {})), IsEmpty());
  EXPECT_EQ(pool.free_pages(), 3);
  EXPECT_TRUE(scheduler.Submit(MakeRequest(1, 2, 2)).ok());
  scheduler.Commit(Result(1, {{3, 1, 5}}));
  EXPECT_TRUE(scheduler.End(3)) << "running, nothing of it in flight";
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_FALSE(scheduler.End(77));
}

Request MakeGroup(RequestId id, int32_t prompt_len, int32_t budget, int32_t samples) {
  Request request = MakeRequest(id, prompt_len, budget);
  request.samples = samples;
  request.sampling = {.temperature = 1.0F, .seed = 5};
  return request;
}

std::vector<int32_t> Pages(const PlannedRow& row) { return {row.pages.begin(), row.pages.end()}; }

TEST(SchedulerTest, SamplesShareWhatTheOldestComputesAndPart) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 11, 5, 3)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 8/8");
  EXPECT_EQ(pool.free_pages(), 16 - 2 - 3 * 2) << "positions 0 to 7 once, 8 to 15 thrice";
  const StepPlan& plan = scheduler.Next();
  EXPECT_EQ(Describe(plan), "1@0 3/11!, 1.1@1 3/11!, 1.2@2 2/10");
  EXPECT_THAT(Pages(plan.rows[0]), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Pages(plan.rows[1]), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(Pages(plan.rows[2]), ElementsAre(0, 1, 6, 7));
  EXPECT_THAT(plan.rows[1].prompt_tokens, ElementsAre(108, 109, 110));
  EXPECT_EQ(plan.rows[1].prompt.size(), 11) << "whole, though its beginning is another's work";
  EXPECT_EQ(plan.rows[0].sampling.seed, 5);
  EXPECT_EQ(plan.rows[1].sampling.seed, SampleSeed(5, 1));
  EXPECT_EQ(plan.rows[2].sampling.seed, SampleSeed(5, 2));
  scheduler.Commit(Result(0, {}));
  EXPECT_THAT(Describe(scheduler.Commit(Result(1, {{1, 0, kStop}, {1, 1, 6}}))),
              ElementsAre("1:999 end of text", "1.1:6 goes on"));
  EXPECT_EQ(pool.free_pages(), 10) << "its own pages are back, the shared ones are not";
  EXPECT_EQ(Describe(scheduler.Next()), "1.1@1 1/12!, 1.2@2 1/11!");
  EXPECT_EQ(scheduler.running(), 2);
  EXPECT_THAT(Describe(scheduler.Commit(Result(2, {{1, 1, 7}, {1, 2, 8}}))),
              ElementsAre("1.1:7 goes on", "1.2:8 goes on"));
  EXPECT_TRUE(scheduler.End(1, 1));
  EXPECT_FALSE(scheduler.End(1, 1));
  EXPECT_FALSE(scheduler.End(1, 3));
  EXPECT_EQ(pool.free_pages(), 12);
  EXPECT_TRUE(scheduler.End(1));
  EXPECT_EQ(pool.free_pages(), 16);
  EXPECT_TRUE(scheduler.idle());
}

TEST(SchedulerTest, SamplesWaitForTheStepAfterTheSharedPositions) {
  SchedulerConfig config = kConfig;
  config.chunk_tokens = 64;
  PagePool pool(64, 4);
  Scheduler scheduler(config, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 9, 2, 2)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(2, 3, 1)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 9/9!, 2@2 3/3!") << "others do not wait";
  const StepPlan& plan = scheduler.Next();
  EXPECT_EQ(Describe(plan), "1@0 1/10!, 1.1@1 1/9!");
  EXPECT_THAT(plan.rows[0].prompt_tokens, IsEmpty());
  EXPECT_THAT(plan.rows[1].prompt_tokens, ElementsAre(108)) << "the last token is never shared";
}

TEST(SchedulerTest, APromptWithinOnePageIsNotShared) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 4, 4, 2)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 4/4!, 1.1@1 4/4!");
  EXPECT_EQ(pool.free_pages(), 12);
}

TEST(SchedulerTest, TheNextSampleTakesOverWhereTheOldestEnded) {
  PagePool pool(32, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 19, 4, 3)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 8/8");
  EXPECT_TRUE(scheduler.End(1, 0));
  EXPECT_EQ(Describe(scheduler.Next()), "1.1@1 8/16") << "behind the step in flight";
  EXPECT_EQ(pool.free_pages(), 32 - 4 - 3 * 2);
  scheduler.Commit(Result(0, {}));
  EXPECT_EQ(pool.free_pages(), 32 - 4 - 2 * 2);
  EXPECT_EQ(Describe(scheduler.Next()), "1.1@1 3/19!, 1.2@2 3/19!");
}

TEST(SchedulerTest, SamplesStartTogetherOrHoldUpAllBehindThem) {
  PagePool pool(12, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 2, 1, 2)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeGroup(2, 2, 1, 3)).ok());
  ASSERT_TRUE(scheduler.Submit(MakeRequest(3, 2, 1)).ok());
  EXPECT_EQ(Describe(scheduler.Next()), "1@0 2/2!, 1.1@1 2/2!") << "two rows are left, not three";
  EXPECT_EQ(scheduler.waiting(), 2) << "requests";
  scheduler.Commit(Result(0, {{1, 0, 5}, {1, 1, 5}}));
  EXPECT_EQ(Describe(scheduler.Next()), "2@0 2/2!, 2.1@1 2/2!, 2.2@2 2/2!, 3@3 2/2!");
  scheduler.Commit(Result(1, {{2, 0, 5}, {2, 1, 5}, {2, 2, 5}, {3, 3, 5}}));

  ASSERT_TRUE(scheduler.Submit(MakeRequest(4, 6, 2)).ok());    // 2 pages
  ASSERT_TRUE(scheduler.Submit(MakeGroup(5, 9, 10, 3)).ok());  // 2 + 3 * 3
  ASSERT_TRUE(scheduler.Submit(MakeRequest(6, 2, 1)).ok());    // 1
  EXPECT_EQ(Describe(scheduler.Next()), "4@0 6/6!") << "ten pages are left, not eleven";
  EXPECT_TRUE(scheduler.End(5, 1)) << "waiting";
  EXPECT_FALSE(scheduler.End(5, 1));
  EXPECT_EQ(Describe(scheduler.Next()), "4@0 1/7!, 5@1 8/8");
  EXPECT_EQ(pool.free_pages(), 12 - 2 - 2 - 2 * 3 - 1);
  EXPECT_EQ(scheduler.running(), 4);
}

TEST(SchedulerTest, AGroupWhoseSamplesAllEndWhileItWaitsIsGone) {
  SchedulerConfig config = kConfig;
  config.max_batch = 2;
  PagePool pool(12, 4);
  Scheduler scheduler(config, pool);
  ASSERT_TRUE(scheduler.Submit(MakeGroup(1, 2, 1, 2)).ok());
  EXPECT_TRUE(scheduler.End(1, 0));
  EXPECT_FALSE(scheduler.End(1, 0));
  EXPECT_TRUE(scheduler.End(1, 1));
  EXPECT_TRUE(scheduler.idle());
  EXPECT_TRUE(scheduler.Next().empty());
}

TEST(SchedulerTest, AbandonEndsEverything) {
  PagePool pool(4, 4);
  Scheduler scheduler(kConfig, pool);
  for (RequestId id = 1; id <= 6; ++id) ASSERT_TRUE(scheduler.Submit(MakeRequest(id, 2, 2)).ok());
  scheduler.Next();
  scheduler.Next();
  scheduler.Abandon();
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool.free_pages(), 4);
  EXPECT_TRUE(scheduler.Next().empty());
}

TEST(SchedulerTest, RefusesAtSubmitWhatCouldNeverRun) {
  PagePool pool(4, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 12, 4)).ok()) << "exactly the pool";
  const Status pool_size = scheduler.Submit(MakeRequest(2, 12, 5));
  EXPECT_EQ(pool_size.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_size.message(),
            "a prompt of 12 tokens and a budget of 5 need 5 pages of 4: the pool has 4");
  EXPECT_EQ(scheduler.Submit(MakeRequest(3, 60, 5)).message(),
            "a prompt of 60 tokens and a budget of 5 make 65: the model takes 64");
  EXPECT_EQ(scheduler.Submit(MakeGroup(4, 1, 1, 0)).message(),
            "samples is 0: allowed are 1 to 4 (max_batch)");
  EXPECT_EQ(scheduler.Submit(MakeGroup(4, 1, 1, 5)).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      scheduler.Submit(MakeGroup(4, 9, 3, 3)).message(),
      "3 samples of a prompt of 9 tokens and a budget of 3 need 5 pages of 4: the pool has 4");
  EXPECT_TRUE(scheduler.Submit(MakeGroup(4, 9, 3, 2)).ok()) << "exactly the pool";
  EXPECT_EQ(scheduler.Submit(MakeRequest(1, 1, 1)).message(), "request 1 is here already");
  EXPECT_TRUE(scheduler.End(4));
  scheduler.Next();
  EXPECT_EQ(scheduler.Submit(MakeRequest(1, 1, 1)).message(), "request 1 is here already");
  EXPECT_EQ(scheduler.waiting(), 0);
}

TEST(SchedulerTest, RefusesAConfigByName) {
  const auto refusal = [](auto change) {
    SchedulerConfig config = kConfig;
    change(config);
    return ValidateSchedulerConfig(config).message();
  };
  EXPECT_EQ(refusal([](SchedulerConfig&) {}), "");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.max_batch = 0; }),
            "max_batch is 0: allowed is at least 1");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.chunk_tokens = -7; }),
            "chunk_tokens is -7: allowed is at least 1");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.limits.max_model_len = 0; }),
            "max_model_len is 0: allowed is at least 1");
  EXPECT_EQ(refusal([](SchedulerConfig& c) { c.limits.vocab_size = 0; }),
            "vocab_size is 0: allowed is at least 1");
}

TEST(SchedulerDeathTest, AThirdStepOrAResultOutOfTurnIsABug) {
  PagePool pool(16, 4);
  Scheduler scheduler(kConfig, pool);
  ASSERT_TRUE(scheduler.Submit(MakeRequest(1, 2, 9)).ok());
  scheduler.Next();
  scheduler.Next();
  EXPECT_DEATH(scheduler.Next(), "2 steps are in flight already");
  EXPECT_DEATH(scheduler.Commit(Result(1, {{1, 0, 5}})), "the result of step 1 with 2 in flight");
  EXPECT_DEATH(scheduler.Commit(Result(0, {})), "no token for request 1 in row 0");
  EXPECT_DEATH(scheduler.Commit(Result(0, {{1, 1, 5}})), "no token for request 1 in row 0");
  EXPECT_DEATH(scheduler.Commit(Result(0, {{1, 0, 5}, {1, 0, 5}})), "1 tokens too many");
}

}  // namespace
}  // namespace decant
