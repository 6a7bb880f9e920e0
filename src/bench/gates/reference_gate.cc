#include "bench/gates/reference_gate.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/gates/engine_gate.h"
#include "bench/gates/precision.h"
#include "bench/text_table.h"

namespace decant {
namespace {

const std::optional<ReferenceYardstick>& YardstickOf(const ReferencePrompt& prompt, DType type) {
  static const std::optional<ReferenceYardstick> none;
  switch (type) {
    case DType::kBf16:
      return prompt.bf16;
    case DType::kF16:
      return prompt.fp16;
    case DType::kF32:
      return none;
  }
  return none;
}

/// How close the reference's two best logits must be for a flip to pass.
double AllowedGap(const ReferenceGateOptions& options, const ReferencePrompt& prompt, DType type) {
  if (options.near_tie_gap) return *options.near_tie_gap;
  const std::optional<ReferenceYardstick>& yardstick = YardstickOf(prompt, type);
  return std::max(NearTieGap(type), yardstick ? 4 * yardstick->rms : 0.0);
}

}  // namespace

Expected<GateReport> RunReferenceGate(const EngineLoader& loader,
                                      const ReferenceGateOptions& options) {
  const ReferenceFile& file = options.reference;
  DECANT_ASSIGN_OR_RETURN(const auto engine,
                          GateEngine::Load(loader, options.engine, LogitGaps::kIgnored));
  ServedModel& model = engine->model();
  if (model.config().shape.vocab != file.vocab) {
    return InvalidArgument("{} is of {}, which has {} tokens; this model has {}", options.file_name,
                           file.model, file.vocab, model.config().shape.vocab);
  }
  const DType type = model.ops().cache_type();
  GateReport report;
  report.gate = "reference";
  std::vector<const ReferencePrompt*> prompts;
  std::vector<WorkItem> items;
  int32_t too_long = 0;
  for (const ReferencePrompt& prompt : file.prompts) {
    const auto length = static_cast<int32_t>(prompt.prompt.size());
    const WorkItem item{.prompt = prompt.prompt,
                        .budget = static_cast<int32_t>(prompt.greedy.size())};
    if ((options.max_prompt_tokens > 0 && length > options.max_prompt_tokens) ||
        item.positions() > model.max_model_len()) {
      ++too_long;
      continue;
    }
    if (type == DType::kBf16 && prompt.ill_conditioned) {
      report.notes.push_back(fmt::format("{}: ill-conditioned in bf16, left out", prompt.name));
      continue;
    }
    prompts.push_back(&prompt);
    items.push_back(item);
  }
  if (too_long > 0) report.notes.push_back(fmt::format("{} longer prompts left out", too_long));
  if (items.empty()) return InvalidArgument("every prompt of {} is left out", options.file_name);
  DECANT_ASSIGN_OR_RETURN(const std::vector<ServedTokens> served, engine->Serve(items));

  const auto flipped = std::ranges::count_if(prompts, [&](const ReferencePrompt* prompt) {
    return YardstickOf(*prompt, type) && YardstickOf(*prompt, type)->flips;
  });
  const auto sites = static_cast<int32_t>((3 * flipped + 1) / 2);
  NearTieJudge judge(
      {.gap = NearTieGap(type),
       .max_sites = options.max_flip_sites.value_or(std::max(NearTieRule().max_sites, sites))});
  TextTable table({"prompt", "tokens", "generated", "same", "a near tie is under"});
  int64_t prompt_tokens = 0;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const ReferencePrompt& prompt = *prompts[i];
    const double allowed = AllowedGap(options, prompt, type);
    judge.Compare(prompt.name,
                  {.prompt = prompt.prompt, .tokens = prompt.greedy, .gaps = prompt.gaps},
                  served[i].tokens, allowed);
    prompt_tokens += std::ssize(prompt.prompt);
    const auto same = std::mismatch(prompt.greedy.begin(), prompt.greedy.end(),
                                    served[i].tokens.begin(), served[i].tokens.end())
                          .first -
                      prompt.greedy.begin();
    table.AddRow({prompt.name, fmt::format("{}", prompt.prompt.size()),
                  fmt::format("{}", prompt.greedy.size()), fmt::format("{}", same),
                  fmt::format("{:.3f}", allowed)});
  }
  report.compared.Add("backend", model.ops().Describe())
      .Add("type", DTypeName(type))
      .Add("decode_kernel", DecodeKernelName(options.engine.decode_kernel))
      .Add("page_size", options.engine.page_size)
      .Add("reference", options.file_name)
      .Add("reference_model", file.model)
      .Add("prompts", prompts.size())
      .Add("prompt_tokens", prompt_tokens)
      .Add("compared_tokens", judge.tokens())
      .Add("flipped_requests", judge.flipped_requests())
      .Add("max_flip_sites", judge.rule().max_sites);
  report.table = fmt::format("{}; greedy tokens against transformers in fp32 ({})\n{}",
                             model.ops().Describe(), file.model, table.ToString());
  report.largest_difference = judge.largest_gap();
  report.flip_sites = judge.sites();
  report.failures = judge.Failures();
  return report;
}

}  // namespace decant
