#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/run_header.h"

namespace decant {
namespace {

constexpr int kExitError = 1;
constexpr int kExitUsage = 2;
constexpr int kExitInterrupted = 130;  // what a shell reports for SIGINT
constexpr int kExitClosedPipe = 141;   // what a shell reports for SIGPIPE

/// The exit status of a command that ended with `status`, once all it printed is out.
int Finish(const Status& status) {
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  // Whoever closed the pipe knows.
  if (PipeClosed()) return kExitClosedPipe;
  if (status.code() == StatusCode::kCancelled) return kExitInterrupted;
  if (!status.ok()) {
    std::fprintf(stderr, "decant: %s\n", status.message().c_str());
    return status.code() == StatusCode::kInvalidArgument ? kExitUsage : kExitError;
  }
  if (printed) return 0;
  std::fputs("decant: standard output could not be written (is its disk full?)\n", stderr);
  return kExitError;
}

int Run(int argc, char** argv) {
  CLI::App app("decant serves decoder language models: continuous batching over a paged KV cache.");
  app.name("decant");
  app.require_subcommand(1);
  app.set_version_flag("--version",
                       "decant " DECANT_VERSION " (" + std::string(BuildCommit()) + ")");
  app.set_help_flag("-h,--help", "Print this text and end");
  std::string log_level;
  app.add_option("--log-level", log_level,
                 "debug, info, warning, error or off (default: $DECANT_LOG, or info)")
      ->check([](const std::string& name) { return ParseLogLevel(name).status().message(); })
      ->type_name("LEVEL");
  app.footer(
      "Get a model, look at it, let it write:\n"
      "  scripts/fetch-model smollm2-135m\n"
      "  decant inspect models/smollm2-135m-instruct-q4_1.gguf\n"
      "  decant generate --model models/smollm2-135m-instruct-q4_1.gguf --prompt \"The sea is\"\n"
      "  decant serve --model models/smollm2-135m-instruct-q4_1.gguf\n"
      "Every command explains itself: decant generate --help");

  CLI::App& bench = *app.add_subcommand("bench", "Measure the engine");
  bench.require_subcommand(1);
  std::vector<Command> commands = {
      AddGenerateCommand(app),
      AddInspectCommand(app),
      AddParityCommand(app, {argv, static_cast<size_t>(argc)}),
      AddRenderCommand(app),
      AddScoreCommand(app, {argv, static_cast<size_t>(argc)}),
      AddServeCommand(app),
      AddTokenizeCommand(app),
      AddBenchArrivalsCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchClosedCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchCompareCommand(bench),
      AddBenchInvarianceCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchKernelCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchLinearCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchPageProbeCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchStepsCommand(bench, {argv, static_cast<size_t>(argc)}),
      AddBenchWorkloadCommand(bench, {argv, static_cast<size_t>(argc)})};
  for (Command& command : AddGateCommands(app, {argv, static_cast<size_t>(argc)})) {
    commands.push_back(std::move(command));
  }
  for (Command& command : AddSimulateCommands(app, {argv, static_cast<size_t>(argc)})) {
    commands.push_back(std::move(command));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (!log_level.empty()) SetLogLevel(ParseLogLevel(log_level).value());

  CatchInterrupts();
  CatchFailedWrites(ClosedPipe::kStops);
  for (const Command& command : commands) {
    if (command.app->parsed()) return Finish(command.run());
  }
  return kExitUsage;
}

}  // namespace
}  // namespace decant

int main(int argc, char** argv) { return decant::Run(argc, argv); }
