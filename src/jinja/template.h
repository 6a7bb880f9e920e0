#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "jinja/budget.h"
#include "jinja/builtins.h"
#include "jinja/value.h"

namespace decant::jinja {

struct Tree;

/// The machine's local time.
std::tm LocalTime();

struct RenderOptions {
  RenderLimits limits = {};
  Clock clock = LocalTime;
};

/// A template in the subset of jinja2's language that docs/chat_templates.md describes. Renders the
/// text that Python's jinja2 3.1 renders in the sandbox that Hugging Face gives chat templates.
/// Templates and variables are hostile input: what a template can use is bounded. Copies share; any
/// number of threads may render at once.
class Template {
 public:
  /// Errors name the line: InvalidArgument for wrong syntax, Unimplemented for what the subset does
  /// not have, ResourceExhausted for a template beyond the parser's limits.
  static Expected<Template> Parse(std::string_view source);

  /// The text for these variables, whose text must be well-formed UTF-8. Errors: InvalidArgument
  /// where jinja2 would raise; with the template's own words, and no line, where it calls
  /// raise_exception(). Unimplemented for what only a rendering shows to be outside the subset.
  /// ResourceExhausted for a limit.
  Expected<std::string> Render(const Dict& variables, const RenderOptions& options = {}) const;

 private:
  explicit Template(std::shared_ptr<const Tree> tree) : tree_(std::move(tree)) {}

  std::shared_ptr<const Tree> tree_;
};

}  // namespace decant::jinja
