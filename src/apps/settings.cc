#include "apps/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string>
#include <vector>

namespace decant {
namespace {

/// As --help and --config, flags that only the command line has.
bool Settable(const CLI::Option& option) {
  const std::vector<std::string>& names = option.get_lnames();
  return !names.empty() && names.front() != "help" && names.front() != "config";
}

/// Environment variables of aliases; CLI11 knows one variable an option, which the first name has.
void ReadAliases(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const char* const value = std::getenv(EnvironmentName(name).c_str());
      if (!Settable(*option) || option->count() > 0 || value == nullptr || *value == '\0') continue;
      option->add_result(std::string(value));
      option->run_callback();
    }
  }
}

/// Sets what neither the command line nor the environment has set.
void ReadConfig(CLI::App& app, const std::string& path) {
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(path);
  } catch (const CLI::FileError&) {
    throw CLI::ValidationError("--config", fmt::format("{} cannot be read", path));
  }
  for (const CLI::ConfigItem& item : items) {
    if (!item.parents.empty()) {
      throw CLI::ValidationError(
          "--config", fmt::format("{}: [{}] is a section; there are none, only lines flag = value",
                                  path, item.parents.front()));
    }
    CLI::Option* const option = app.get_option_no_throw("--" + item.name);
    if (option == nullptr || !Settable(*option)) {
      throw CLI::ValidationError(
          "--config", fmt::format("{}: '{}' is no flag of {}", path, item.name, app.get_name()));
    }
    if (option->count() > 0) continue;
    try {
      option->add_result(item.inputs);
      option->run_callback();
    } catch (const CLI::Error& error) {
      throw CLI::ValidationError("--config", fmt::format("{}: {}", path, error.what()));
    }
  }
}

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = "DECANT_" + flag;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return name;
}

void AddSettings(CLI::App& app) {
  const CLI::Option* const config =
      app.add_option("--config",
                     "A file of lines flag = value, such as max-batch = 16; the "
                     "command line and the environment come before it")
          ->envname(EnvironmentName("config"))
          ->type_name("FILE");
  for (CLI::Option* const option : app.get_options()) {
    if (Settable(*option)) option->envname(EnvironmentName(option->get_lnames().front()));
  }
  app.parse_complete_callback([&app, config] {
    ReadAliases(app);
    if (config->count() > 0) ReadConfig(app, config->as<std::string>());
  });
}

}  // namespace decant
