#include <fmt/format.h>

#include <algorithm>

#include "base/narrow.h"
#include "bench/gates/page_gates.h"
#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"

namespace decant {
namespace {

int32_t AllPages(const Workload& workload, int32_t page_size) {
  int32_t all = 0;
  for (const WorkItem& item : workload.items) all += CeilDiv(item.positions(), page_size);
  return all;
}

/// A third of the pages that all requests take, so that each has several holders in turn; what the
/// longest request needs at least.
int32_t ScarcePages(const Workload& workload, int32_t page_size) {
  return std::max(CeilDiv(workload.longest(), page_size), AllPages(workload, page_size) / 3);
}

/// The same requests on one engine, which so computes alike both times.
struct PoisonRuns {
  std::vector<ServedTokens> clean{};
  std::vector<ServedTokens> poisoned{};
  Status
      failed{};  ///< Of a request that failed once freed pages were poisoned; `poisoned` is empty.
  int32_t pages = 0;
  std::string backend{};
  Workload workload{};
};

Expected<PoisonRuns> ServeTwice(const EngineLoader& loader, EngineOptions options,
                                const GateWorkload& wanted) {
  // Lengths are drawn without looking at the vocabulary.
  const std::vector<Token> any = {0};
  options.max_pages = ScarcePages(MakeWorkload(wanted.name, wanted.options, wanted.requests, any),
                                  options.page_size);
  DECANT_ASSIGN_OR_RETURN(const auto engine,
                          GateEngine::Load(loader, options, LogitGaps::kIgnored));
  // Refused where the backend lacks it, whatever loading made of that.
  DECANT_RETURN_IF_ERROR(engine->model().ops().UseDecodeKernel(options.decode_kernel));
  PoisonRuns runs;
  runs.pages = engine->model().num_pages();
  runs.backend = engine->model().ops().Describe();
  runs.workload = MakeWorkload(wanted.name, wanted.options, wanted.requests,
                               PromptAlphabet(engine->model().tokenizer()));
  DECANT_ASSIGN_OR_RETURN(runs.clean, engine->Serve(runs.workload.items));
  engine->model().PoisonFreedPages(true);
  Expected<std::vector<ServedTokens>> poisoned = engine->Serve(runs.workload.items);
  if (poisoned.ok()) {
    runs.poisoned = std::move(poisoned).value();
  } else if (engine->FailedByItself(poisoned.status())) {
    runs.failed = poisoned.status();  // poison reached its logits
  } else {
    return poisoned.status();
  }
  return runs;
}

/// Tokens up to the first that differs, over all requests; a fault for each that differs.
int64_t CompareTokens(std::string_view kernel, const PoisonRuns& runs,
                      std::vector<std::string>& failures) {
  if (!runs.failed.ok()) {
    failures.push_back(fmt::format("{}: a request fails once freed pages are poisoned: {}", kernel,
                                   runs.failed.message()));
    return 0;
  }
  int64_t same = 0;
  for (size_t i = 0; i < runs.clean.size(); ++i) {
    const std::vector<Token>& expected = runs.clean[i].tokens;
    const std::vector<Token>& got = runs.poisoned[i].tokens;
    const auto [at, other] =
        std::mismatch(expected.begin(), expected.end(), got.begin(), got.end());
    same += at - expected.begin();
    if (at == expected.end() && other == got.end()) continue;
    failures.push_back(
        fmt::format("{}: request {} differs from token {} on once freed pages are "
                    "poisoned",
                    kernel, i, at - expected.begin()));
  }
  return same;
}

}  // namespace

Expected<GateReport> RunPoisonGate(const EngineLoader& loader, const PoisonGateOptions& options) {
  DECANT_RETURN_IF_ERROR(ValidateWorkloadOptions(options.workload.options));
  if (options.workload.requests < 2) {
    return InvalidArgument("{} requests; pages are freed and taken again by two at least",
                           options.workload.requests);
  }
  std::vector<DecodeKernel> kernels = options.kernels;
  if (kernels.empty()) kernels.assign(AllDecodeKernels().begin(), AllDecodeKernels().end());
  GateReport report;
  report.gate = "poison";
  TextTable table({"kernel", "page", "pages", "requests", "tokens", "same"});
  JsonArray lines;
  std::string backend;
  for (const DecodeKernel kernel : kernels) {
    const std::string_view name = DecodeKernelName(kernel);
    EngineOptions engine = options.engine;
    engine.decode_kernel = kernel;
    auto runs = ServeTwice(loader, engine, options.workload);
    if (!runs.ok() && runs.status().code() == StatusCode::kInvalidArgument &&
        engine.page_size != 256) {
      engine.page_size = 256;  // what the widest kernel needs
      runs = ServeTwice(loader, engine, options.workload);
    }
    if (!runs.ok() && options.kernels.empty() &&
        runs.status().code() == StatusCode::kUnimplemented) {
      report.notes.push_back(runs.status().message());
      continue;
    }
    DECANT_RETURN_IF_ERROR(runs.status());
    if (AllPages(runs->workload, engine.page_size) <= runs->pages) {
      report.failures.push_back(fmt::format(
          "{}: all requests fit {} pages at once, so none was taken twice", name, runs->pages));
    }
    const int64_t same = CompareTokens(name, *runs, report.failures);
    const int64_t tokens = runs->workload.budget_tokens();
    backend = runs->backend;
    table.AddRow({std::string(name), fmt::format("{}", engine.page_size),
                  fmt::format("{}", runs->pages), fmt::format("{}", runs->clean.size()),
                  fmt::format("{}", tokens), fmt::format("{}", same)});
    lines.Add(JsonObject()
                  .Add("kernel", name)
                  .Add("page_size", engine.page_size)
                  .Add("pages", runs->pages)
                  .Add("tokens", tokens)
                  .Add("same_tokens", same));
    report.largest_difference += static_cast<double>(tokens - same);
  }
  if (backend.empty()) report.failures.emplace_back("no decode kernel ran");
  report.compared.Add("backend", backend)
      .Add("workload", options.workload.name)
      .Add("seed", options.workload.options.seed)
      .Add("requests", options.workload.requests)
      .Add("kernels", lines);
  report.table =
      fmt::format("{}; tokens with and without NaN in freed pages\n{}", backend, table.ToString());
  return report;
}

}  // namespace decant
