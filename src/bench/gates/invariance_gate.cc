#include "bench/gates/invariance_gate.h"

#include <fmt/format.h>

#include <utility>

#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"

namespace decant {
namespace {

/// Tokens that are as they should be, logits and all, up to each request's first that is not.
int64_t CountSame(const InvarianceSetting& setting, const std::vector<ServedTokens>& expected,
                  const std::vector<ServedTokens>& got, std::vector<std::string>& failures) {
  int64_t same = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    size_t at = 0;
    while (at < expected[i].tokens.size() && at < got[i].tokens.size() &&
           expected[i].tokens[at] == got[i].tokens[at] &&
           expected[i].hashes[at] == got[i].hashes[at]) {
      ++at;
    }
    same += static_cast<int64_t>(at);
    if (at < expected[i].tokens.size()) {
      failures.push_back(fmt::format("{}: request {} has other logits from token {} of {} on",
                                     setting.name, i, at, expected[i].tokens.size()));
    }
  }
  return same;
}

}  // namespace

std::vector<InvarianceSetting> InvarianceGateOptions::DefaultSettings() {
  return {
      {.name = "alone"},
      {.name = "2 rows", .max_batch = 2},
      {.name = "8 rows, chunks of 64", .max_batch = 8, .chunk_tokens = 64},
      {.name = "32 rows, pages of 16", .max_batch = 32, .page_size = 16},
      {.name = "32 rows, without graphs", .max_batch = 32, .graphs = false},
      {.name = "64 rows, chunks of 2048, pages of 256",
       .max_batch = 64,
       .chunk_tokens = 2048,
       .page_size = 256},
  };
}

Expected<GateReport> RunInvarianceGate(const EngineLoader& loader,
                                       const InvarianceGateOptions& options) {
  DECANT_RETURN_IF_ERROR(ValidateWorkloadOptions(options.workload.options));
  GateReport report;
  report.gate = "invariance";
  TextTable table({"setting", "requests", "tokens", "same logits"});
  JsonArray lines;
  std::string backend;
  std::vector<ServedTokens> expected;
  for (const InvarianceSetting& setting : options.settings) {
    EngineOptions engine_options = options.engine;
    engine_options.max_batch = setting.max_batch;
    engine_options.chunk_tokens = setting.chunk_tokens;
    engine_options.auto_chunk = false;
    engine_options.max_step_ms.reset();
    engine_options.page_size = setting.page_size;
    engine_options.graphs = setting.graphs;
    DECANT_ASSIGN_OR_RETURN(const auto engine, GateEngine::Load(loader, std::move(engine_options),
                                                                LogitGaps::kRecorded));
    backend = engine->model().ops().Describe();
    const Workload workload =
        MakeWorkload(options.workload.name, options.workload.options, options.workload.requests,
                     PromptAlphabet(engine->model().tokenizer()));
    DECANT_ASSIGN_OR_RETURN(std::vector<ServedTokens> served, engine->Serve(workload.items));
    if (expected.empty()) expected = served;
    const int64_t tokens = workload.budget_tokens();
    const int64_t same = CountSame(setting, expected, served, report.failures);
    table.AddRow({setting.name, fmt::format("{}", served.size()), fmt::format("{}", tokens),
                  fmt::format("{}", same)});
    lines.Add(JsonObject()
                  .Add("setting", setting.name)
                  .Add("max_batch", setting.max_batch)
                  .Add("chunk_tokens", setting.chunk_tokens)
                  .Add("page_size", setting.page_size)
                  .Add("graphs", setting.graphs)
                  .Add("tokens", tokens)
                  .Add("same_logits", same));
    report.largest_difference += static_cast<double>(tokens - same);
  }
  report.compared.Add("backend", backend)
      .Add("workload", options.workload.name)
      .Add("seed", options.workload.options.seed)
      .Add("requests", options.workload.requests)
      .Add("settings", lines);
  report.table =
      fmt::format("{}; tokens and the bits of their logits, against each request alone\n{}",
                  backend, table.ToString());
  return report;
}

}  // namespace decant
