#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "base/json.h"
#include "bench/compare_case.h"
#include "bench/prompt_alphabet.h"
#include "bench/quantile.h"

namespace decant {
namespace {

struct CompareFlags {
  EngineFlags engine{};
  std::string name{};
  int32_t repeat = 3;
  uint64_t seed = 0;
  bool json = false;
};

Status Compare(CompareFlags flags) {
  DECANT_ASSIGN_OR_RETURN(const CompareCase compare, FindCompareCase(flags.name));
  flags.engine.max_batch = compare.max_batch();
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  if (options.auto_chunk) {
    return InvalidArgument("--chunk-tokens is auto; allowed here: a number of tokens");
  }
  options.chunk_tokens = compare.chunk_tokens(options.chunk_tokens);
  DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
  const std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());

  std::vector<double> rates;
  for (int32_t repeat = 0; repeat <= flags.repeat; ++repeat) {
    DECANT_ASSIGN_OR_RETURN(const double rate,
                            RunCompareCase(served->engine(), compare, alphabet, flags.seed));
    if (repeat > 0) rates.push_back(rate);
  }
  if (flags.json) {
    JsonArray list;
    for (const double rate : rates) list.Add(rate);
    const JsonObject answer = JsonObject()
                                  .Add("case", compare.name)
                                  .Add("tokens_per_s", list)
                                  .Add("backend", served->ops().Describe());
    std::printf("%s\n", answer.ToString().c_str());
  } else {
    std::printf("%s: %.1f tokens/s (median of %d)\n", flags.name.c_str(), Median(rates),
                flags.repeat);
  }
  return Status();
}

}  // namespace

Command AddBenchCompareCommand(CLI::App& parent) {
  CLI::App& app = *parent.add_subcommand(
      "compare", "Take one of the measurements of scripts/compare-llama-cpp");
  const auto flags = std::make_shared<CompareFlags>();
  AddEngineFlags(app, flags->engine, EngineFlagSet::kWithoutBatch);
  std::string names;
  for (const CompareCase& known : CompareCases()) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  app.add_option("--case", flags->name, "One of " + names)->required()->type_name("NAME");
  app.add_option("--repeat", flags->repeat, "Recorded repeats, after one that is not recorded")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_option("--seed", flags->seed, "Of the prompts' random ids")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_flag("--json", flags->json, "Print one JSON line instead of words");
  app.footer(
      "prefill_N reads one prompt of N tokens. decodeR_atC decodes R rows side by side, each with\n"
      "C positions in the cache before the first measured step.\n"
      "Example:\n"
      "  decant bench compare --model M.gguf --threads 2 --case decode8_at512 --repeat 3");
  return {.app = &app, .run = [flags] { return Compare(*flags); }};
}

}  // namespace decant
