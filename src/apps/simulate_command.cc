#include "apps/simulate_command.h"

#include <CLI/CLI.hpp>

namespace decant {

std::vector<Command> AddSimulateCommands(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& group = *parent.add_subcommand(
      "simulate", "Run the real scheduler in virtual time: no model, no device");
  group.require_subcommand(1);
  group.footer(
      "A device is a small file of step times (data/devices/*.json).\n"
      "docs/simulation.md has the model, how the files came about and how far they are off.");
  return {AddSimulateFitCommand(group),
          AddSimulateFitSeedCommand(group),
          AddSimulateCheckCommand(group, command),
          AddSimulateFaultsCommand(group, command),
          AddSimulateMutationsCommand(group),
          AddSimulatePlanCommand(group, command),
          AddSimulateSeedTablesCommand(group, command)};
}

}  // namespace decant
