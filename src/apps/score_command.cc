#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/read_input.h"
#include "base/csv_writer.h"
#include "base/jsonl_writer.h"
#include "base/progress.h"
#include "base/run_header.h"
#include "bench/score.h"
#include "bench/text_table.h"
#include "engine/device.h"
#include "engine/preset.h"

namespace decant {
namespace {

constexpr int32_t kDefaultWindow = 1024;

struct ScoreFlags {
  EngineFlags engine{};
  std::optional<std::string> text{};
  std::optional<std::string> prompt{};
  std::vector<std::string> through = {"prompt", "decode"};
  std::vector<std::string> decode_kernels{};
  std::optional<int32_t> window{};
  std::string out{};
};

enum class Through { kPrompt, kDecode };

/// One way of computing the same thing.
struct ScoreRun {
  Through through = Through::kPrompt;
  EngineOptions options{};

  const char* name() const { return through == Through::kPrompt ? "prompt" : "decode"; }
};

Expected<Through> FindThrough(const std::string& name) {
  if (name == "prompt") return Through::kPrompt;
  if (name == "decode") return Through::kDecode;
  return InvalidArgument("--through is '{}'; allowed: prompt, decode", name);
}

Expected<std::vector<ScoreRun>> ReadRuns(const ScoreFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  options.max_batch = 1;
  std::vector<DecodeKernel> kernels;
  for (const std::string& name : flags.decode_kernels) {
    DECANT_ASSIGN_OR_RETURN(const DecodeKernel kernel, FindDecodeKernel(name, options.device));
    kernels.push_back(kernel);
  }
  if (kernels.empty()) kernels.push_back(options.decode_kernel);
  options.decode_kernel = kernels.front();
  std::vector<ScoreRun> runs;
  for (const std::string& name : flags.through) {
    DECANT_ASSIGN_OR_RETURN(const Through through, FindThrough(name));
    if (through == Through::kPrompt) {
      runs.push_back({.through = through, .options = options});
      continue;
    }
    for (const DecodeKernel kernel : kernels) {
      runs.push_back({.through = through, .options = options});
      runs.back().options.decode_kernel = kernel;
      runs.back().options.chunk_tokens = 1;
      runs.back().options.auto_chunk = false;
      runs.back().options.max_step_ms.reset();
    }
  }
  return runs;
}

Expected<std::string> ReadText(const ScoreFlags& flags) {
  if (flags.prompt) return *flags.prompt;
  return ReadFile(*flags.text);
}

/// A score and what it was computed with.
struct ScoreRow {
  std::string model{};
  std::string text{};  ///< The file's name, or "prompt".
  std::string device{};
  std::string through{};
  std::string decode_kernel{};
  int32_t page_size = 0;
  int32_t window = 0;
  TextScore score{};
  /// From the first row's log-probabilities; absent for the first.
  std::optional<double> difference{};
};

const std::vector<std::string>& Columns() {
  static const std::vector<std::string> columns = {
      "utc_time", "commit",        "device",     "model",         "text",
      "through",  "decode_kernel", "page_size",  "window",        "tokens",
      "bytes",    "sum_logprob",   "perplexity", "bits_per_byte", "largest_difference"};
  return columns;
}

Status WriteCsv(const ScoreFlags& flags, const RunHeader& header,
                const std::vector<ScoreRow>& rows) {
  DECANT_ASSIGN_OR_RETURN(CsvWriter csv,
                          CsvWriter::Open(std::filesystem::path(flags.out) / "score.csv", Columns(),
                                          OutputMode::kAppend));
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  for (const ScoreRow& row : rows) {
    DECANT_RETURN_IF_ERROR(
        csv.WriteRow({header.utc_time, header.commit, row.device, row.model, row.text, row.through,
                      row.decode_kernel, row.page_size, row.window, row.score.logprobs.size(),
                      row.score.bytes, row.score.sum(), row.score.perplexity(),
                      row.score.bits_per_byte(), row.difference.value_or(kMissing)}));
  }
  return csv.Close();
}

Status WriteJsonl(const ScoreFlags& flags, const RunHeader& header,
                  const std::vector<ScoreRow>& rows) {
  DECANT_ASSIGN_OR_RETURN(
      JsonlWriter jsonl,
      JsonlWriter::Open(std::filesystem::path(flags.out) / "score.jsonl", OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(ToJson(header)));
  for (const ScoreRow& row : rows) {
    JsonObject object;
    object.Add("device", row.device)
        .Add("model", row.model)
        .Add("text", row.text)
        .Add("through", row.through)
        .Add("decode_kernel", row.decode_kernel)
        .Add("page_size", row.page_size)
        .Add("window", row.window)
        .Add("tokens", row.score.logprobs.size())
        .Add("bytes", row.score.bytes)
        .Add("sum_logprob", row.score.sum())
        .Add("perplexity", row.score.perplexity())
        .Add("bits_per_byte", row.score.bits_per_byte());
    if (row.difference) object.Add("largest_difference", *row.difference);
    DECANT_RETURN_IF_ERROR(jsonl.Write(JsonObject().Add("score", object)));
  }
  return jsonl.Close();
}

std::string ScoreTable(const std::vector<ScoreRow>& rows) {
  TextTable table({"through", "decode kernel", "page", "tokens", "log-likelihood", "perplexity",
                   "bits a byte", "largest difference"});
  for (const ScoreRow& row : rows) {
    table.AddRow({row.through, row.through == "prompt" ? "-" : row.decode_kernel,
                  fmt::format("{}", row.page_size), fmt::format("{}", row.score.logprobs.size()),
                  fmt::format("{:.3f}", row.score.sum()),
                  fmt::format("{:.4f}", row.score.perplexity()),
                  fmt::format("{:.5f}", row.score.bits_per_byte()),
                  row.difference ? fmt::format("{:.4f}", *row.difference) : ""});
  }
  return table.ToString();
}

/// Pieces of this many positions, one more of which the model must hold.
Expected<int32_t> WindowOf(const ScoreFlags& flags, const ServedModel& served) {
  const int32_t most = served.max_model_len() - 1;
  if (!flags.window) return std::min(kDefaultWindow, most);
  if (*flags.window < 2 || *flags.window > most) {
    return InvalidArgument("--window is {}; allowed: 2 to {}", *flags.window, most);
  }
  return *flags.window;
}

Expected<ScoreRow> RunOne(const ScoreFlags& flags, const ScoreRun& run, const std::string& text) {
  DECANT_ASSIGN_OR_RETURN(const auto served, LoadWithProgress(run.options));
  DECANT_ASSIGN_OR_RETURN(const int32_t window, WindowOf(flags, *served));
  const std::vector<Token> tokens = served->tokenizer().Encode(text, SpecialTokens::kAsText);
  std::unique_ptr<Progress> progress;
  int64_t shown = 0;
  const auto show = [&](int64_t done, int64_t total) {
    if (!progress) progress = std::make_unique<Progress>(run.name(), total, "tokens");
    progress->Advance(done - shown);
    shown = done;
  };
  DECANT_ASSIGN_OR_RETURN(TextScore score,
                          ScoreTokens(served->engine(), served->tokenizer(), tokens, window, show));
  return ScoreRow{
      .model = served->config().name,
      .text = flags.text ? std::filesystem::path(*flags.text).filename().string() : "prompt",
      .through = run.name(),
      .decode_kernel = std::string(DecodeKernelName(run.options.decode_kernel)),
      .page_size = run.options.page_size,
      .window = window,
      .score = std::move(score)};
}

Status RunScore(const ScoreFlags& flags, std::span<const char* const> command) {
  if (!flags.text && !flags.prompt) {
    return InvalidArgument("no text is given; allowed: --text FILE or --prompt TEXT");
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<ScoreRun> runs, ReadRuns(flags));
  DECANT_ASSIGN_OR_RETURN(const std::string text, ReadText(flags));
  const RunHeader header = MakeRunHeader(command, 0);
  std::vector<ScoreRow> rows;
  for (const ScoreRun& run : runs) {
    DECANT_ASSIGN_OR_RETURN(ScoreRow row, RunOne(flags, run, text));
    if (!rows.empty()) row.difference = LargestDifference(rows.front().score, row.score);
    row.device = DeviceName(run.options.device);
    rows.push_back(std::move(row));
  }
  std::printf("%s, pieces of %d tokens; differences are from the first row's log-probabilities\n%s",
              rows.front().text.c_str(), rows.front().window, ScoreTable(rows).c_str());
  if (flags.out.empty()) return Status();
  DECANT_RETURN_IF_ERROR(WriteCsv(flags, header, rows));
  return WriteJsonl(flags, header, rows);
}

}  // namespace

Command AddScoreCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "score", "Log-likelihood and perplexity of a text, by prompt kernel and by decode kernels");
  const auto flags = std::make_shared<ScoreFlags>();
  AddEngineFlags(app, flags->engine, EngineFlagSet::kWithoutSweeps);
  auto* text = app.add_option("--text", flags->text, "A file with the text")->type_name("FILE");
  app.add_option("--prompt", flags->prompt, "The text itself")->type_name("TEXT")->excludes(text);
  app.add_option("--through", flags->through,
                 "prompt: in chunks, attention by the prompt kernel; decode: one position a step, "
                 "so that the decode kernel computes all attention. A list is run in turn")
      ->delimiter(',')
      ->capture_default_str()
      ->type_name("NAME,...");
  app.add_option("--decode-kernel", flags->decode_kernels,
                 "With decode: split, rows or flash (default: the engine's); a list is run in turn")
      ->delimiter(',')
      ->type_name("NAME,...");
  app.add_option("--window", flags->window,
                 "Cut the text into pieces of so many tokens, each scored by itself (default: "
                 "1024, or what the model takes)")
      ->type_name("N");
  app.add_option("--out", flags->out, "Folder for the rows: adds to score.csv and score.jsonl")
      ->type_name("DIR");
  app.footer(
      "Examples:\n"
      "  decant score --model M.gguf --prompt \"The sea is blue.\"\n"
      "  decant score --model M.gguf --text book.txt --decode-kernel rows,split --out results/cpu\n"
      "  decant score --model M.gguf --text book.txt --through prompt --window 4096\n"
      "A text through the prompt kernel and through each decode kernel should be as likely, to\n"
      "rounding: this is what the kernels cost in quality. --through decode takes as many steps "
      "as\n"
      "the text has tokens.");
  return {.app = &app, .run = [flags, command] { return RunScore(*flags, command); }};
}

}  // namespace decant
