#pragma once

#include <span>
#include <vector>

#include "apps/command.h"

namespace decant {

// Each registers one subcommand of `decant simulate`.
Command AddSimulateFitCommand(CLI::App& parent);
Command AddSimulateFitSeedCommand(CLI::App& parent);
Command AddSimulateCheckCommand(CLI::App& parent, std::span<const char* const> command);
Command AddSimulatePlanCommand(CLI::App& parent, std::span<const char* const> command);
Command AddSimulateSeedTablesCommand(CLI::App& parent, std::span<const char* const> command);
Command AddSimulateFaultsCommand(CLI::App& parent, std::span<const char* const> command);
Command AddSimulateMutationsCommand(CLI::App& parent);

}  // namespace decant
