#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "base/jsonl_writer.h"
#include "base/progress.h"
#include "base/run_header.h"
#include "bench/parity.h"
#include "bench/prompt_alphabet.h"
#include "bench/text_table.h"

namespace decant {
namespace {

struct ParityFlags {
  std::string a{};
  std::string b{};
  std::string kernel_a{};
  std::string kernel_b{};
  EngineFlags engine{};
  double near_tie = 0.02;
  int32_t show = 10;
  std::string out{};

  bool asks_model() const { return !engine.model.empty() || engine.random_weights; }
};

/// The rows of one side, of one decode kernel if `kernel` names it.
Expected<std::vector<TokenRow>> ReadSide(const std::string& path, const std::string& kernel,
                                         const char* flag) {
  DECANT_ASSIGN_OR_RETURN(std::vector<TokenRow> rows, ReadTokenRows(path));
  if (kernel.empty()) return rows;
  std::erase_if(rows, [&](const TokenRow& row) { return row.run.decode_kernel != kernel; });
  if (rows.empty()) {
    return InvalidArgument("{} is '{}'; no request of {} ran with that kernel", flag, kernel, path);
  }
  return rows;
}

/// The settings of a side's runs, each once: "rows, pages of 64, 32 rows, chunks of 512".
std::string SettingsOf(const std::vector<TokenRow>& rows) {
  std::vector<std::string> all;
  for (const TokenRow& row : rows) {
    std::string settings = row.run.Settings();
    if (std::ranges::find(all, settings) == all.end()) all.push_back(std::move(settings));
  }
  return fmt::format("{}", fmt::join(all, "; "));
}

std::string Percent(const ParityCount& count) {
  return count.requests == 0 ? "-" : fmt::format("{:.1f}%", 100 * count.share());
}

std::string CountTable(const Parity& parity) {
  TextTable table({"prompt tokens", "requests", "differ", "share"});
  const auto add = [&table](std::string label, const ParityCount& count) {
    table.AddRow({std::move(label), fmt::format("{}", count.requests),
                  fmt::format("{}", count.differ), Percent(count)});
  };
  for (const LengthParity& length : parity.lengths) {
    add(fmt::format("{}", length.prompt_tokens), length.count);
  }
  add("all", parity.all);
  return table.ToString();
}

std::string TokenText(const std::optional<Token>& token) {
  return token ? fmt::format("{}", *token) : "(ended)";
}

std::string FlipTable(const Parity& parity, const std::vector<FlipFinding>& findings,
                      size_t count) {
  std::vector<std::string> columns = {"request",       "load", "prompt tokens",
                                      "first flip at", "A",    "B"};
  if (!findings.empty()) columns.insert(columns.end(), {"logit gap", "A - B"});
  TextTable table(columns);
  for (size_t i = 0; i < std::min(count, parity.flips.size()); ++i) {
    const Flip& flip = parity.flips[i];
    std::vector<std::string> cells = {fmt::format("{}, {}", flip.a->run.workload, flip.a->index),
                                      flip.a->run.load,
                                      fmt::format("{}", flip.a->prompt_tokens),
                                      fmt::format("{}", flip.position),
                                      TokenText(flip.token_a),
                                      TokenText(flip.token_b)};
    if (!findings.empty()) {
      cells.push_back(fmt::format("{:.4f}", findings[i].gap));
      cells.push_back(fmt::format("{:+.2f}", findings[i].logprob_a - findings[i].logprob_b));
    }
    table.AddRow(std::move(cells));
  }
  return table.ToString();
}

/// What the model was asked, in words.
std::string FindingsText(const SiteCount& sites, const AnswerQuality& quality, double near_tie) {
  return fmt::format(
      "flip sites: {}, of which {} are near ties (a logit gap under {:g}); the largest gap is "
      "{:.4f}\n"
      "answers: of {} distinct pairs the model finds A's likelier in {} and B's in {}; A's "
      "log-likelihood less B's is {:+.3f} (standard error {:.3f}), a token {:+.5f} ({:.5f})\n",
      sites.sites, sites.near_ties, near_tie, sites.largest_gap, quality.pairs, quality.a_higher,
      quality.b_higher, quality.total.mean, quality.total.error, quality.per_token.mean,
      quality.per_token.error);
}

JsonObject FlipJson(const Flip& flip, const FlipFinding* finding) {
  JsonObject object;
  object.Add("workload", flip.a->run.workload)
      .Add("load", flip.a->run.load)
      .Add("index", flip.a->index)
      .Add("prompt_tokens", flip.a->prompt_tokens)
      .Add("a", flip.a->run.Settings())
      .Add("b", flip.b->run.Settings())
      .Add("a_tokens", flip.a->tokens.size())
      .Add("b_tokens", flip.b->tokens.size())
      .Add("position", flip.position);
  if (flip.token_a) object.Add("token_a", *flip.token_a);
  if (flip.token_b) object.Add("token_b", *flip.token_b);
  if (finding != nullptr) {
    object.Add("logit_gap", finding->gap)
        .Add("best", finding->best)
        .Add("second", finding->second)
        .Add("new_site", finding->new_site)
        .Add("logprob_a", finding->logprob_a)
        .Add("logprob_b", finding->logprob_b)
        .Add("new_answers", finding->new_answers);
  }
  return JsonObject().Add("flip", object);
}

JsonObject SummaryJson(const Parity& parity, const ParityFlags& flags) {
  JsonArray lengths;
  for (const LengthParity& length : parity.lengths) {
    lengths.Add(JsonObject()
                    .Add("prompt_tokens", length.prompt_tokens)
                    .Add("requests", length.count.requests)
                    .Add("differ", length.count.differ));
  }
  return JsonObject()
      .Add("a", flags.a)
      .Add("b", flags.b)
      .Add("requests", parity.all.requests)
      .Add("differ", parity.all.differ)
      .Add("only_a", parity.only_a)
      .Add("only_b", parity.only_b)
      .Add("by_prompt_tokens", lengths);
}

void AddFindings(const SiteCount& sites, const AnswerQuality& quality, const std::string& model,
                 double near_tie, JsonObject& summary) {
  summary.Add("model", model)
      .Add("near_tie_gap", near_tie)
      .Add("flip_sites", sites.sites)
      .Add("near_ties", sites.near_ties)
      .Add("largest_gap", sites.largest_gap)
      .Add("answer_pairs", quality.pairs)
      .Add("a_likelier", quality.a_higher)
      .Add("b_likelier", quality.b_higher)
      .Add("mean_difference", quality.total.mean)
      .Add("mean_difference_error", quality.total.error)
      .Add("mean_difference_per_token", quality.per_token.mean)
      .Add("mean_difference_per_token_error", quality.per_token.error);
}

/// What the model finds about the flips, and its name for the summary.
struct Judgement {
  std::string model{};
  std::vector<FlipFinding> findings{};
};

Expected<Judgement> AskModel(const EngineOptions& options, const Parity& parity) {
  DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(options));
  const std::vector<Token> alphabet = PromptAlphabet(served->tokenizer());
  std::unique_ptr<Progress> progress;
  int64_t shown = 0;
  const auto show = [&](int64_t done, int64_t total) {
    if (!progress) progress = std::make_unique<Progress>("asking the model", total, "tokens");
    progress->Advance(done - shown);
    shown = done;
  };
  Judgement judgement;
  judgement.model = fmt::format("{}, {}, pages of {}", served->config().name,
                                DecodeKernelName(options.decode_kernel), options.page_size);
  DECANT_ASSIGN_OR_RETURN(judgement.findings,
                          JudgeFlips(served->engine(), alphabet, parity.flips, show));
  return judgement;
}

/// Writes parity.jsonl anew: a header, a line a differing request, a summary.
Status WriteResults(const ParityFlags& flags, const RunHeader& header, const Parity& parity,
                    const std::vector<FlipFinding>& findings, const JsonObject& summary) {
  if (flags.out.empty()) return Status();
  DECANT_ASSIGN_OR_RETURN(
      JsonlWriter out,
      JsonlWriter::Open(std::filesystem::path(flags.out) / "parity.jsonl", OutputMode::kReplace));
  DECANT_RETURN_IF_ERROR(out.Write(ToJson(header)));
  for (size_t i = 0; i < parity.flips.size(); ++i) {
    DECANT_RETURN_IF_ERROR(
        out.Write(FlipJson(parity.flips[i], findings.empty() ? nullptr : &findings[i])));
  }
  DECANT_RETURN_IF_ERROR(out.Write(JsonObject().Add("summary", summary)));
  return out.Close();
}

void PrintComparison(const std::vector<TokenRow>& a, const std::vector<TokenRow>& b,
                     const Parity& parity) {
  std::printf("A: %s\nB: %s\n\n%s", SettingsOf(a).c_str(), SettingsOf(b).c_str(),
              CountTable(parity).c_str());
  if (parity.only_a + parity.only_b > 0) {
    std::printf("not compared: %lld requests that only A has, %lld that only B has\n",
                static_cast<long long>(parity.only_a), static_cast<long long>(parity.only_b));
  }
  std::fflush(stdout);
}

Status RunParity(const ParityFlags& flags, std::span<const char* const> command) {
  std::optional<EngineOptions> options;
  if (flags.asks_model()) {
    DECANT_ASSIGN_OR_RETURN(options, ToEngineOptions(flags.engine));
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<TokenRow> a,
                          ReadSide(flags.a, flags.kernel_a, "--kernel-a"));
  DECANT_ASSIGN_OR_RETURN(const std::vector<TokenRow> b,
                          ReadSide(flags.b, flags.kernel_b, "--kernel-b"));
  const RunHeader header = MakeRunHeader(command, a.front().run.options.seed);
  const Parity parity = CompareTokenRows(a, b);
  PrintComparison(a, b, parity);

  JsonObject summary = SummaryJson(parity, flags);
  Judgement judgement;
  if (options && parity.flips.empty()) {
    std::printf("no request differs: there is nothing to ask the model\n");
  } else if (options) {
    DECANT_ASSIGN_OR_RETURN(judgement, AskModel(*options, parity));
  }
  const std::vector<FlipFinding>& findings = judgement.findings;
  if (!parity.flips.empty()) {
    std::printf("\n%s", FlipTable(parity, findings, static_cast<size_t>(flags.show)).c_str());
    const int64_t hidden = parity.all.differ - flags.show;
    if (hidden > 0) std::printf("and %lld more\n", static_cast<long long>(hidden));
  }
  if (!findings.empty()) {
    const SiteCount sites = CountSites(findings, flags.near_tie);
    const AnswerQuality quality = CompareAnswers(parity.flips, findings);
    std::printf("\n%s", FindingsText(sites, quality, flags.near_tie).c_str());
    AddFindings(sites, quality, judgement.model, flags.near_tie, summary);
  }
  return WriteResults(flags, header, parity, findings, summary);
}

}  // namespace

Command AddParityCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "parity", "Compare the tokens of two runs; with --model, ask it about those that differ");
  const auto flags = std::make_shared<ParityFlags>();
  app.add_option("A", flags->a, "A tokens.jsonl, or a folder that holds one (bench ... --tokens)")
      ->required()
      ->type_name("PATH");
  app.add_option("B", flags->b, "The other")->required()->type_name("PATH");
  app.add_option("--kernel-a", flags->kernel_a, "Of A, only what this decode kernel gave")
      ->type_name("NAME");
  app.add_option("--kernel-b", flags->kernel_b, "Of B, likewise")->type_name("NAME");
  app.add_option("--show", flags->show, "Differing requests to list")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app.add_option("--near-tie", flags->near_tie,
                 "A flip is a near tie where the two best logits are less than this apart")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->type_name("GAP");
  app.add_option("--out", flags->out,
                 "Folder for parity.jsonl: a header, a line a differing request, a summary")
      ->type_name("DIR");
  AddEngineFlags(app, flags->engine, EngineFlagSet::kAll);
  app.footer(
      "Examples:\n"
      "  decant bench closed --model M.gguf --engine fused --tokens --out results/fused\n"
      "  decant bench closed --model M.gguf --engine flash --tokens --out results/flash\n"
      "  decant parity results/fused results/flash\n"
      "  decant parity results/fused results/flash --model M.gguf --engine fused --out results\n"
      "  decant parity results/both results/both --kernel-a rows --kernel-b split\n"
      "Requests are the same where workload, load (batch or rate), index and prompt are. The "
      "model\n"
      "is asked how far apart its two best logits are where each first flip lies, and how likely\n"
      "it finds both answers. A difference is no error: decant gate engine judges.");
  return {.app = &app, .run = [flags, command] { return RunParity(*flags, command); }};
}

}  // namespace decant
