#pragma once

#include <span>
#include <vector>

#include "apps/command.h"

namespace decant {

// Each registers one subcommand of `decant simulate`.
Command AddSimulateFaultsCommand(CLI::App& parent, std::span<const char* const> command);
Command AddSimulateMutationsCommand(CLI::App& parent);

}  // namespace decant
