#include "apps/workload_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <string_view>
#include <utility>

namespace decant {
namespace {

std::optional<int32_t> ParseInt(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "128" or "64-256".
Status ParseBudget(const std::string& text, WorkloadOptions& options) {
  const size_t dash = text.find('-', 1);
  const std::optional<int32_t> first = ParseInt(std::string_view(text).substr(0, dash));
  const std::optional<int32_t> last =
      dash == std::string::npos ? first : ParseInt(std::string_view(text).substr(dash + 1));
  if (!first || !last) {
    return InvalidArgument("--budget is '{}'; allowed: a number of tokens, or two such as 64-256",
                           text);
  }
  options.min_budget = *first;
  options.max_budget = *last;
  return Status();
}

}  // namespace

std::vector<CLI::Option*> AddWorkloadFlags(CLI::App& app, WorkloadFlags& flags) {
  auto* mixed = app.add_option("--mixed-seed", flags.mixed_seeds,
                               "Prompts of 16, 64, 256, 1024 and 4096 tokens and budgets of 64 to "
                               "256, drawn with this seed (default: 0); a list is run in turn")
                    ->delimiter(',')
                    ->type_name("SEED,...");
  auto* prompts = app.add_option("--prompts", flags.prompts,
                                 "Instead: prompts all of one length, p256, and budgets of 128")
                      ->type_name("pN")
                      ->excludes(mixed);
  auto* lengths =
      app.add_option("--prompt-lengths", flags.prompt_lengths, "Other lengths for the mix")
          ->delimiter(',')
          ->type_name("N,...")
          ->excludes(prompts);
  auto* budget = app.add_option("--budget", flags.budget, "Other budgets: 128, or a range, 64-256")
                     ->type_name("N-M");
  auto* scale = app.add_option("--scale", flags.scale,
                               "Multiply lengths and budgets: 0.25 for a small machine")
                    ->capture_default_str()
                    ->type_name("X");
  return {mixed, prompts, lengths, budget, scale};
}

namespace {

Expected<NamedWorkload> MakeNamed(const WorkloadFlags& flags, uint64_t seed) {
  constexpr int32_t kUniformBudget = 128;
  NamedWorkload workload;
  if (flags.prompts) {
    const std::optional<int32_t> length = flags.prompts->starts_with('p')
                                              ? ParseInt(std::string_view(*flags.prompts).substr(1))
                                              : std::nullopt;
    if (!length) {
      return InvalidArgument("--prompts is '{}'; allowed: p and a number of tokens, such as p256",
                             *flags.prompts);
    }
    workload.name = *flags.prompts;
    workload.options.prompt_lengths = {*length};
    workload.options.min_budget = workload.options.max_budget = kUniformBudget;
  } else {
    workload.options.seed = seed;
    workload.name = fmt::format("mixed seed {}", workload.options.seed);
    if (!flags.prompt_lengths.empty()) workload.options.prompt_lengths = flags.prompt_lengths;
  }
  if (flags.budget) DECANT_RETURN_IF_ERROR(ParseBudget(*flags.budget, workload.options));
  workload.options.scale = flags.scale;
  if (flags.scale != 1) workload.name += fmt::format(" scale {}", flags.scale);
  DECANT_RETURN_IF_ERROR(ValidateWorkloadOptions(workload.options));
  return workload;
}

}  // namespace

Expected<std::vector<NamedWorkload>> ReadWorkloads(const WorkloadFlags& flags) {
  std::vector<uint64_t> seeds = flags.mixed_seeds;
  if (seeds.empty()) seeds = {0};
  std::vector<NamedWorkload> workloads;
  for (const uint64_t seed : seeds) {
    DECANT_ASSIGN_OR_RETURN(NamedWorkload workload, MakeNamed(flags, seed));
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

Expected<NamedWorkload> ReadWorkload(const WorkloadFlags& flags) {
  if (flags.mixed_seeds.size() > 1) {
    return InvalidArgument("--mixed-seed has {} seeds; allowed here: one",
                           flags.mixed_seeds.size());
  }
  DECANT_ASSIGN_OR_RETURN(std::vector<NamedWorkload> workloads, ReadWorkloads(flags));
  return std::move(workloads.front());
}

}  // namespace decant
