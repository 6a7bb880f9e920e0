#include "ops/cuda/step_graphs.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace decant {
namespace {

/// A stream that writes down what is queued on it.
struct FakeStream {
  mutable std::vector<std::string> ran;
  mutable std::optional<std::vector<std::string>> recorded;  ///< While it is recorded.
  bool refuses_begin = false;
  bool refuses_end = false;

  void Queue(const std::string& call) const { (recorded ? *recorded : ran).push_back(call); }
};

struct FakeGraph {
  static Status BeginRecording(const FakeStream& stream) {
    if (stream.refuses_begin) return Error(StatusCode::kInternal, "no recording");
    stream.recorded.emplace();
    return {};
  }
  static Expected<FakeGraph> EndRecording(const FakeStream& stream) {
    FakeGraph graph{.calls = *std::exchange(stream.recorded, std::nullopt)};
    if (stream.refuses_end) return Error(StatusCode::kInternal, "no graph");
    return Expected<FakeGraph>(std::move(graph));
  }
  Status Launch(const FakeStream& stream) const {
    for (const std::string& call : calls) stream.Queue(call);
    return {};
  }
  int64_t bytes() const { return 10; }

  std::vector<std::string> calls{};
};

using Graphs = StepGraphsOf<FakeGraph, FakeStream>;

/// A step as CudaOps makes it: `call` is queued unless a graph stands for it; made again where it
/// was lost.
void Step(Graphs& graphs, const FakeStream& stream, const StepKind& kind, const std::string& call,
          const Status& outcome = {}) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    graphs.Begin(kind, stream);
    const bool recorded = graphs.records();
    if (!graphs.replays()) stream.Queue(call);
    const Expected<StepCalls> calls = graphs.Finish(recorded ? outcome : Status(), stream);
    ASSERT_TRUE(calls.ok());
    if (*calls == StepCalls::kQueued) return;
  }
  FAIL() << "lost twice";
}

constexpr StepKind kDecode = {.tokens = 8, .table_stride = 4, .decodes = true};

/// The first two steps of a kind: one by one, then recorded.
void StepTwice(Graphs& graphs, const FakeStream& stream, const StepKind& kind,
               const std::string& call) {
  Step(graphs, stream, kind, call);
  Step(graphs, stream, kind, call);
}

TEST(StepGraphsTest, RecordsTheSecondOfAKindAndLaunchesItFromThenOn) {
  Graphs graphs;
  const FakeStream stream;
  StepKind mixed = kDecode;
  mixed.prompts = true;
  StepKind wider = kDecode;
  wider.table_stride = 5;
  StepKind with_head = kDecode;
  with_head.samples = 8;
  Step(graphs, stream, kDecode, "before");
  EXPECT_EQ(graphs.size(), 0);
  Step(graphs, stream, kDecode, "a");
  EXPECT_EQ(graphs.size(), 1);
  Step(graphs, stream, kDecode, "not called");
  StepTwice(graphs, stream, mixed, "b");
  StepTwice(graphs, stream, wider, "c");
  StepTwice(graphs, stream, {.tokens = 16, .table_stride = 4, .decodes = true}, "d");
  StepTwice(graphs, stream, with_head, "e");
  Step(graphs, stream, kDecode, "not called");
  Step(graphs, stream, mixed, "not called");
  EXPECT_EQ(stream.ran, (std::vector<std::string>{"before", "a", "a", "b", "b", "c", "c", "d", "d",
                                                  "e", "e", "a", "b"}));
  EXPECT_EQ(graphs.size(), 5);
  EXPECT_EQ(graphs.bytes(), 50);
  graphs.Clear();
  Step(graphs, stream, kDecode, "f");
  EXPECT_EQ(stream.ran.back(), "f");
}

TEST(StepGraphsTest, KeepsTheKindsThatWereUsedLast) {
  Graphs graphs;
  const FakeStream stream;
  const auto most = static_cast<int32_t>(Graphs::kMost);
  for (int32_t tokens = 0; tokens < most; ++tokens) {
    StepTwice(graphs, stream, {.tokens = tokens}, "first");
  }
  Step(graphs, stream, {.tokens = 0}, "not called");
  StepTwice(graphs, stream, {.tokens = most}, "one too many");
  EXPECT_EQ(graphs.size(), Graphs::kMost);
  Step(graphs, stream, {.tokens = 0}, "not called");
  EXPECT_EQ(stream.ran.back(), "first");
  Step(graphs, stream, {.tokens = 1}, "again");
  EXPECT_EQ(stream.ran.back(), "again") << "it was used longest ago";
}

TEST(StepGraphsTest, QueuesOneByOneOnceRecordingFailed) {
  const Status refused = Error(StatusCode::kInternal, "a kernel that cannot be recorded");
  for (const int which : {0, 1, 2}) {
    Graphs graphs;
    FakeStream stream;
    StepTwice(graphs, stream, kDecode, "a");
    StepKind other = kDecode;
    other.tokens = 16;
    Step(graphs, stream, other, "b");
    stream.refuses_begin = which == 0;
    stream.refuses_end = which == 1;
    Step(graphs, stream, other, "c", which == 2 ? refused : Status());
    EXPECT_EQ(stream.ran, (std::vector<std::string>{"a", "a", "b", "c"})) << "once";
    Step(graphs, stream, kDecode, "d");
    EXPECT_EQ(stream.ran.back(), "d");
    EXPECT_FALSE(stream.recorded);
  }
}

TEST(StepGraphsTest, FinishesNothingWhereNothingWasBegun) {
  Graphs graphs;
  const FakeStream stream;
  EXPECT_EQ(graphs.Finish({}, stream).value(), StepCalls::kQueued);
  EXPECT_TRUE(stream.ran.empty());
}

}  // namespace
}  // namespace decant
