#include "bench/gates/engine_gate.h"

#include <fmt/format.h>

#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"

namespace decant {
namespace {

JsonObject Describe(const NamedEngine& engine, const std::string& backend) {
  return JsonObject()
      .Add("name", engine.name)
      .Add("decode_kernel", DecodeKernelName(engine.options.decode_kernel))
      .Add("page_size", engine.options.page_size)
      .Add("max_batch", engine.options.max_batch)
      .Add("chunk_tokens", engine.options.chunk_tokens)
      .Add("backend", backend);
}

/// What an engine gave for every request of every workload.
struct Answers {
  std::string backend{};
  DType type = DType::kF32;
  std::vector<Workload> workloads{};
  std::vector<std::vector<ServedTokens>> served{};
};

Expected<Answers> Ask(const EngineLoader& loader, const NamedEngine& engine,
                      const std::vector<GateWorkload>& workloads, LogitGaps gaps) {
  DECANT_ASSIGN_OR_RETURN(const auto gate, GateEngine::Load(loader, engine.options, gaps));
  const std::vector<Token> alphabet = PromptAlphabet(gate->model().tokenizer());
  Answers answers;
  answers.backend = gate->model().ops().Describe();
  answers.type = gate->model().ops().cache_type();
  for (const GateWorkload& workload : workloads) {
    answers.workloads.push_back(
        MakeWorkload(workload.name, workload.options, workload.requests, alphabet));
    auto served = gate->Serve(answers.workloads.back().items);
    if (!served.ok()) {
      return served.status().WithContext(fmt::format("{}, {}", engine.name, workload.name));
    }
    answers.served.push_back(std::move(served).value());
  }
  return answers;
}

}  // namespace

double NearTieGap(DType dtype) {
  constexpr double kGap = 0.02;
  return dtype == DType::kBf16 ? 8 * kGap : kGap;
}

Expected<GateReport> RunEngineGate(const EngineLoader& loader, const EngineGateOptions& options) {
  for (const GateWorkload& workload : options.workloads) {
    DECANT_RETURN_IF_ERROR(ValidateWorkloadOptions(workload.options));
    if (workload.requests < 1)
      return InvalidArgument("a workload of {} requests", workload.requests);
  }
  DECANT_ASSIGN_OR_RETURN(const Answers reference,
                          Ask(loader, options.reference, options.workloads, LogitGaps::kRecorded));
  DECANT_ASSIGN_OR_RETURN(const Answers subject,
                          Ask(loader, options.subject, options.workloads, LogitGaps::kIgnored));

  NearTieJudge judge({.gap = options.near_tie_gap.value_or(NearTieGap(reference.type)),
                      .max_sites = options.max_flip_sites});
  TextTable table({"workload", "requests", "tokens", "compared", "flipped requests", "flip sites"});
  JsonArray workloads;
  for (size_t w = 0; w < options.workloads.size(); ++w) {
    const Workload& workload = reference.workloads[w];
    const int64_t tokens = judge.tokens();
    const int64_t flipped = judge.flipped_requests();
    const size_t sites = judge.sites().size();
    for (size_t i = 0; i < workload.items.size(); ++i) {
      judge.Compare(fmt::format("{}, request {}", workload.name, i),
                    {.prompt = workload.items[i].prompt,
                     .tokens = reference.served[w][i].tokens,
                     .gaps = reference.served[w][i].gaps},
                    subject.served[w][i].tokens);
    }
    table.AddRow({workload.name, fmt::format("{}", workload.items.size()),
                  fmt::format("{}", workload.budget_tokens()),
                  fmt::format("{}", judge.tokens() - tokens),
                  fmt::format("{}", judge.flipped_requests() - flipped),
                  fmt::format("{}", judge.sites().size() - sites)});
    workloads.Add(JsonObject()
                      .Add("workload", workload.name)
                      .Add("seed", options.workloads[w].options.seed)
                      .Add("requests", workload.items.size())
                      .Add("prompt_tokens", workload.prompt_tokens())
                      .Add("generated_tokens", workload.budget_tokens())
                      .Add("compared_tokens", judge.tokens() - tokens)
                      .Add("flipped_requests", judge.flipped_requests() - flipped));
  }
  GateReport report;
  report.gate = "engine";
  report.compared.Add("subject", Describe(options.subject, subject.backend))
      .Add("reference", Describe(options.reference, reference.backend))
      .Add("workloads", workloads)
      .Add("compared_tokens", judge.tokens())
      .Add("near_tie_gap", judge.rule().gap)
      .Add("max_flip_sites", judge.rule().max_sites);
  report.table =
      fmt::format("{} against {}: greedy tokens; a near tie is under {:g}\n{}",
                  options.subject.name, options.reference.name, judge.rule().gap, table.ToString());
  report.largest_difference = judge.largest_gap();
  report.flip_sites = judge.sites();
  report.failures = judge.Failures();
  return report;
}

}  // namespace decant
