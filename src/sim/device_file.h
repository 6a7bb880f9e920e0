#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/status.h"
#include "sim/step_time_model.h"

namespace decant {

/// A device's parameters as JSON: docs/simulation.md lists the keys; their names carry the units.
/// Errors: data loss that names the key and what is allowed; unknown keys are refused.
Expected<StepTimeParameters> ParseDevice(std::string_view text);

/// The same for a file; errors name it. Not found: it cannot be read.
Expected<StepTimeParameters> ReadDevice(const std::filesystem::path& path);

/// The text that ParseDevice reads, several lines. `fitted_from` says where the figures come from.
std::string DeviceText(const StepTimeParameters& device, std::string_view fitted_from);

/// Writes it; a file that is there is replaced as a whole.
Status WriteDevice(const StepTimeParameters& device, std::string_view fitted_from,
                   const std::filesystem::path& path);

}  // namespace decant
