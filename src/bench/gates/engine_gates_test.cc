// The gates that need an engine, on a tiny model: each passes, and each can fail.

#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/testing/temporary_folder.h"
#include "bench/gates/engine_gate.h"
#include "bench/gates/faulty_ops.h"
#include "bench/gates/invariance_gate.h"
#include "bench/gates/page_gates.h"
#include "bench/gates/reference_gate.h"
#include "bench/gates/same_pages_gate.h"
#include "model/testing/tiny_model.h"

namespace decant {
namespace {

Expected<std::unique_ptr<ServedModel>> Load(const EngineOptions& options) {
  return LoadEngine(options, nullptr);
}

class EngineGatesTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::BuildTinyModel({}).WriteTo(path_); }

  EngineOptions Options(DecodeKernel kernel = DecodeKernel::kSplit) const {
    EngineOptions options;
    options.model = path_;
    options.threads = 1;
    options.decode_kernel = kernel;
    options.pool_gib = 0.25;
    options.max_batch = 8;
    options.chunk_tokens = 128;
    return options;
  }

  static GateWorkload Mixed(int32_t requests = 10) {
    return {.name = "mixed", .options = {.scale = 0.1}, .requests = requests};
  }

  EngineGateOptions EngineGate() const {
    EngineGateOptions options;
    options.subject = {.name = "decant", .options = Options()};
    options.reference = {.name = "fused", .options = Options(DecodeKernel::kRows)};
    options.workloads = {Mixed(),
                         {.name = "uniform",
                          .options = {.prompt_lengths = {32}, .min_budget = 8, .max_budget = 8},
                          .requests = 6}};
    return options;
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "tiny.gguf";
};

void Break(EngineOptions& options, Fault fault, std::optional<DecodeKernel> kernel = {}) {
  options.wrap_ops = [fault, kernel](std::unique_ptr<Ops> ops, const DecoderShape&) {
    return std::make_unique<FaultyOps>(std::move(ops), fault, kernel);
  };
}

TEST_F(EngineGatesTest, TwoKernelsGiveTheSameTokens) {
  const GateReport report = RunEngineGate(Load, EngineGate()).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
  EXPECT_NE(report.compared.ToString().find(R"("workload": "uniform")"), std::string::npos);
}

TEST_F(EngineGatesTest, AKernelThatDropsAPositionGivesOthers) {
  EngineGateOptions options = EngineGate();
  Break(options.subject.options, Fault::kDropsLast, DecodeKernel::kSplit);
  const GateReport report = RunEngineGate(Load, options).value();
  EXPECT_FALSE(report.passed());
  EXPECT_FALSE(report.flip_sites.empty());
}

TEST_F(EngineGatesTest, LogitsDoNotDependOnTheBatch) {
  InvarianceGateOptions options{.engine = Options(), .workload = EngineGate().workloads[0]};
  const GateReport report = RunInvarianceGate(Load, options).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
  EXPECT_NE(report.table.find("64 rows"), std::string::npos);

  Break(options.engine, Fault::kSeesTheBatch);
  const GateReport broken = RunInvarianceGate(Load, options).value();
  EXPECT_FALSE(broken.passed());
  ASSERT_FALSE(broken.failures.empty());
  EXPECT_NE(broken.failures[0].find("2 rows: request"), std::string::npos) << broken.failures[0];
}

TEST_F(EngineGatesTest, ServesTheSameScheduleEveryTime) {
  const auto schedule = [&] {
    std::vector<std::string> steps;
    const auto engine =
        GateEngine::Load(Load, Options(), LogitGaps::kRecorded, [&steps](const StepPlan& plan) {
          std::string line;
          for (const PlannedRow& row : plan.rows) {
            line += fmt::format("{}:{}+{} ", row.request, row.context_len, row.query_len);
          }
          steps.push_back(line);
        }).value();
    std::vector<WorkItem> items;
    items.reserve(20);
    for (int32_t i = 0; i < 20; ++i) {
      items.push_back({.prompt = std::vector<Token>(1 + i * 7, i), .budget = 1 + i % 5});
    }
    const std::vector<ServedTokens> served = engine->Serve(items).value();
    for (size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(std::ssize(served[i].tokens), items[i].budget);
      EXPECT_EQ(served[i].gaps.size(), served[i].tokens.size());
      for (const float gap : served[i].gaps) EXPECT_GE(gap, 0);
    }
    return steps;
  };
  EXPECT_EQ(schedule(), schedule());
}

TEST_F(EngineGatesTest, SaysWhichRequestCannotFit) {
  const auto engine = GateEngine::Load(Load, Options(), LogitGaps::kIgnored).value();
  const std::vector<WorkItem> items = {{.prompt = {1}, .budget = 4},
                                       {.prompt = {1}, .budget = 4000}};
  const Status status = engine->Serve(items).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("request 1"), std::string::npos);
  EXPECT_TRUE(engine->Serve(std::span(items).first(1)).ok());
}

TEST_F(EngineGatesTest, WidePagesAreHeldWholeAndComeBack) {
  const GateReport report = RunWidePagesGate(Load, Options()).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
  EXPECT_NE(report.compared.ToString().find(R"("positions": 300, "pages": 2)"), std::string::npos);
}

TEST(JudgeAdmissionTest, SeesEveryFault) {
  const std::vector<HeldPages> right = {
      {.positions = 300, .pages = {0, 1}, .first_step = 1, .last_step = 9},
      {.positions = 256, .pages = {2}, .first_step = 1, .last_step = 3},
      {.positions = 257, .pages = {2, 0}, .first_step = 11, .last_step = 12}};
  EXPECT_TRUE(JudgeAdmission(right, 256, 3).empty());
  const auto fails = [&](const std::function<void(std::vector<HeldPages>&)>& change,
                         int32_t pages) {
    std::vector<HeldPages> wrong = right;
    change(wrong);
    return !JudgeAdmission(wrong, 256, pages).empty();
  };
  const auto nothing = [](std::vector<HeldPages>&) {};
  EXPECT_TRUE(fails(nothing, 2));  // three pages are held
  EXPECT_TRUE(fails(nothing, 5));  // the third need not have waited
  EXPECT_TRUE(fails([](auto& held) { held[0].pages = {0, 1, 3}; }, 3));
  EXPECT_TRUE(fails([](auto& held) { held[0].pages = {0}; }, 3));
  EXPECT_TRUE(fails([](auto& held) { held[1].pages = {1}; }, 3));     // in two rows at once
  EXPECT_TRUE(fails([](auto& held) { held[2].first_step = 0; }, 3));  // overtook two
  EXPECT_TRUE(fails(
      [](auto& held) {
        held[1].first_step = 5;
        held[1].last_step = 9;
      },
      3));
}

TEST_F(EngineGatesTest, PoisonedPagesChangeNothing) {
  const GateReport report = RunPoisonGate(Load, {.engine = Options(), .workload = Mixed()}).value();
  EXPECT_TRUE(report.passed()) << ToText(report);
  for (const char* kernel : {"rows", "split"}) {
    EXPECT_NE(report.table.find(kernel), std::string::npos);
  }
  EXPECT_EQ(report.table.find("flash"), std::string::npos);
  EXPECT_EQ(report.notes.size(), 1U);
}

TEST_F(EngineGatesTest, PoisonShowsAKernelThatReadsPastTheEnd) {
  PoisonGateOptions options{
      .engine = Options(), .kernels = {DecodeKernel::kRows}, .workload = Mixed()};
  Break(options.engine, Fault::kReadsOneMore);
  const GateReport report = RunPoisonGate(Load, options).value();
  ASSERT_EQ(report.failures.size(), 1U) << ToText(report);
  EXPECT_NE(report.failures[0].find("fails once freed pages are poisoned"), std::string::npos);
}

TEST_F(EngineGatesTest, KernelsAgreeOnTheSamePages) {
  for (const DecodeKernel serving : {DecodeKernel::kRows, DecodeKernel::kSplit}) {
    const GateReport report =
        RunSamePagesGate(Load, {.engine = Options(serving), .workload = Mixed(6)}).value();
    EXPECT_TRUE(report.passed()) << ToText(report);
    EXPECT_GT(report.largest_ulps, 0);
    ASSERT_EQ(report.notes.size(), 1U);  // flash
    EXPECT_NE(report.notes[0].find("flash"), std::string::npos);
  }
}

TEST_F(EngineGatesTest, AFaultInEitherKernelShowsOnTheSamePages) {
  for (const DecodeKernel faulty : {DecodeKernel::kRows, DecodeKernel::kSplit}) {
    for (const Fault fault : {Fault::kDropsLast, Fault::kNaN}) {
      SamePagesGateOptions options{.engine = Options(), .workload = Mixed(4)};
      Break(options.engine, fault, faulty);
      EXPECT_FALSE(RunSamePagesGate(Load, options).value().passed());
    }
  }
}

/// A golden file whose greedy tokens are the engine's own; step 2 of the first prompt has `gap`.
class ReferenceGateTest : public EngineGatesTest {
 protected:
  void SetUp() override {
    EngineGatesTest::SetUp();
    const std::vector<WorkItem> items = {{.prompt = {1, 2, 3}, .budget = 4},
                                         {.prompt = std::vector<Token>(200, 7), .budget = 4}};
    const auto engine = GateEngine::Load(Load, Options(), LogitGaps::kIgnored).value();
    const std::vector<ServedTokens> served = engine->Serve(items).value();
    for (size_t i = 0; i < items.size(); ++i) {
      prompts_.push_back({.name = fmt::format("prompt-{}", i),
                          .prompt = items[i].prompt,
                          .greedy = served[i].tokens,
                          .gaps = std::vector<float>(4, 1.0F),
                          .bf16 = {},
                          .fp16 = {}});
    }
  }

  Expected<GateReport> Run() const {
    ReferenceGateOptions options;
    options.engine = Options();
    options.reference = {.model = "tiny", .vocab = 280, .prompts = prompts_};
    return RunReferenceGate(Load, options);
  }

  Status Read(const std::string& text) const {
    std::ofstream(golden_) << text;
    return ReadReferenceFile(golden_).status();
  }

  const std::string golden_ = temporary_ / "golden.jsonl";
  std::vector<ReferencePrompt> prompts_;
};

TEST_F(ReferenceGateTest, OnlyANearTieMayFlip) {
  EXPECT_TRUE(Run().value().passed());
  prompts_[0].greedy[2] = (prompts_[0].greedy[2] + 1) % 280;
  EXPECT_FALSE(Run().value().passed());
  prompts_[0].gaps[2] = 0.01F;
  EXPECT_TRUE(Run().value().passed());
  prompts_[0].gaps[2] = 0.3F;
  EXPECT_FALSE(Run().value().passed());
  // transformers in bf16 is as far off itself.
  prompts_[0].bf16 = ReferenceYardstick{.rms = 0.1, .flips = true};
  EXPECT_TRUE(Run().value().passed());
}

TEST_F(ReferenceGateTest, RefusesAnotherVocabulary) {
  ReferenceGateOptions options;
  options.engine = Options();
  options.reference = {.model = "other", .vocab = 281, .prompts = prompts_};
  EXPECT_EQ(RunReferenceGate(Load, options).status().code(), StatusCode::kInvalidArgument);
}

constexpr const char* kHeader = R"({"golden":1,"model":"m","vocab":10})";

std::string Prompt(const std::string& change = "") {
  return std::string(kHeader) + "\n" +
         R"({"name":"a","prompt":[1],"greedy":[2,3],"steps":{"top2_logit":[[2,1],[3,1]]})" +
         change + "}\n";
}

TEST_F(ReferenceGateTest, ReadsWhatTheToolWrites) {
  ASSERT_TRUE(
      Read(Prompt(R"(,"bf16":{"steps":{"rms":0.5},"flips":[]},"ill_conditioned":true)")).ok());
  const ReferenceFile file = ReadReferenceFile(golden_).value();
  EXPECT_EQ(file.vocab, 10);
  ASSERT_EQ(file.prompts.size(), 1U);
  EXPECT_EQ(file.prompts[0].greedy, (std::vector<Token>{2, 3}));
  EXPECT_EQ(file.prompts[0].gaps, (std::vector<float>{1, 2}));
  EXPECT_TRUE(file.prompts[0].ill_conditioned);
  EXPECT_EQ(file.prompts[0].bf16->rms, 0.5);
  const std::string stored = std::string(DECANT_TEST_DATA) + "/golden/smollm2-135m.jsonl";
  EXPECT_EQ(ReadReferenceFile(stored).value().prompts.size(), 31U);
}

TEST_F(ReferenceGateTest, RefusesBadFiles) {
  EXPECT_EQ(ReadReferenceFile(golden_ + ".none").status().code(), StatusCode::kNotFound);
  for (const std::string& text : std::vector<std::string>{
           "", "{}\n", kHeader, "[1]\n", "{\"golden\":2}\n",
           R"({"golden":1,"model":"m","vocab":0})", R"({"golden":1,"model":"m","vocab":1e9})",
           R"({"golden":1,"model":"m","vocab":99999999999999999999})",
           R"({"golden":1,"model":5,"vocab":10})"}) {
    EXPECT_EQ(Read(text).code(), StatusCode::kDataLoss) << text;
  }
  const std::string head = std::string(kHeader) + "\n";
  for (const std::string& line : std::vector<std::string>{
           "nonsense", "{}", std::string(100000, '['), R"({"name":"a","prompt":[]})",
           R"({"name":"a","prompt":[10],"greedy":[1],"steps":{"top2_logit":[[2,1]]}})",
           R"({"name":"a","prompt":[-1],"greedy":[1],"steps":{"top2_logit":[[2,1]]}})",
           R"({"name":"a","prompt":[1.5],"greedy":[1],"steps":{"top2_logit":[[2,1]]}})",
           R"({"name":"a","prompt":[1],"greedy":[1,2],"steps":{"top2_logit":[[2,1]]}})",
           R"({"name":"a","prompt":[1],"greedy":[1],"steps":{"top2_logit":[[1,2]]}})",
           R"({"name":"a","prompt":[1],"greedy":[1],"steps":{"top2_logit":[["2",1]]}})",
           R"({"name":"a","prompt":[1],"greedy":[1],"steps":[]})"}) {
    const Status status = Read(head + line);
    EXPECT_EQ(status.code(), StatusCode::kDataLoss) << line.substr(0, 80);
    EXPECT_NE(status.message().find("line 2"), std::string::npos) << status.message();
  }
  EXPECT_EQ(Read(Prompt(R"(,"bf16":{"steps":{"rms":-1},"flips":[]})")).code(),
            StatusCode::kDataLoss);
  EXPECT_EQ(Read(Prompt(R"(,"bf16":{"steps":{"rms":1}})")).code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace decant
