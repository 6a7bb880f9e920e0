#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
}

namespace decant {

/// A subcommand whose flags are registered; `run` does its work once they are parsed. kCancelled
/// says that the person interrupted it and knows already.
struct Command {
  CLI::App* app = nullptr;
  std::function<Status()> run;
};

// Each registers one subcommand under `parent`. `command`: all arguments of the program, for the
// header of results; they outlive the command.
Command AddGenerateCommand(CLI::App& parent);
Command AddInspectCommand(CLI::App& parent);
Command AddRenderCommand(CLI::App& parent);
Command AddServeCommand(CLI::App& parent);
Command AddTokenizeCommand(CLI::App& parent);
Command AddBenchArrivalsCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchClosedCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchCompareCommand(CLI::App& parent);
Command AddBenchInvarianceCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchKernelCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchLinearCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchPageProbeCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchStepsCommand(CLI::App& parent, std::span<const char* const> command);
Command AddBenchWorkloadCommand(CLI::App& parent, std::span<const char* const> command);
Command AddParityCommand(CLI::App& parent, std::span<const char* const> command);
Command AddScoreCommand(CLI::App& parent, std::span<const char* const> command);

/// "gate" and its subcommands, one for each gate.
std::vector<Command> AddGateCommands(CLI::App& parent, std::span<const char* const> command);

/// "simulate" and its subcommands.
std::vector<Command> AddSimulateCommands(CLI::App& parent, std::span<const char* const> command);

}  // namespace decant
