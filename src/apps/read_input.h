#pragma once

#include <string>

#include "base/status.h"

namespace decant {

/// All of a file. Errors name it.
Expected<std::string> ReadFile(const std::string& path);

/// All of standard input; kCancelled if the person interrupts.
Expected<std::string> ReadStdin();

}  // namespace decant
