#pragma once

#include <string>

namespace CLI {
class App;
}

namespace decant {

/// Lets every flag of `app` also be set by an environment variable (--max-batch: DECANT_MAX_BATCH;
/// an alias has one of its own) and by a file that --config names, which this adds. The command
/// line comes first, then the environment, then the file. To be called once all flags are added.
void AddSettings(CLI::App& app);

/// The environment variable of a flag's name without its dashes: "max-batch" gives
/// "DECANT_MAX_BATCH".
std::string EnvironmentName(const std::string& flag);

}  // namespace decant
