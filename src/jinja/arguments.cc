#include <algorithm>

#include "jinja/builtins.h"
#include "jinja/failure.h"

namespace decant::jinja {

std::vector<const Value*> BindArguments(std::string_view callee, const Arguments& arguments,
                                        const std::vector<std::string_view>& parameters) {
  return BindArguments(callee, arguments, parameters, 0);
}

std::vector<const Value*> BindArguments(std::string_view callee, const Arguments& arguments,
                                        const std::vector<std::string_view>& parameters,
                                        size_t required) {
  if (arguments.positional.size() > parameters.size()) {
    Fail("{} takes at most {} arguments, not {}", callee, parameters.size(),
         arguments.positional.size());
  }
  std::vector<const Value*> values(parameters.size(), nullptr);
  for (size_t i = 0; i < arguments.positional.size(); ++i) values[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    if (found == parameters.end()) Fail("{} has no parameter '{}'", callee, name);
    const Value*& slot = values[static_cast<size_t>(found - parameters.begin())];
    if (slot != nullptr) Fail("{} got its parameter '{}' twice", callee, name);
    slot = &value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (values[i] == nullptr) Fail("{} needs its argument '{}'", callee, parameters[i]);
  }
  return values;
}

}  // namespace decant::jinja
