#include "apps/simulate_command.h"

#include <CLI/CLI.hpp>

namespace decant {

std::vector<Command> AddSimulateCommands(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& group = *parent.add_subcommand(
      "simulate", "Run the real scheduler in virtual time: no model, no device");
  group.require_subcommand(1);
  return {AddSimulateFaultsCommand(group, command), AddSimulateMutationsCommand(group)};
}

}  // namespace decant
