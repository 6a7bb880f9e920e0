#include "jinja/template.h"

#include <utility>

#include "jinja/ast.h"
#include "jinja/failure.h"
#include "jinja/interpreter.h"
#include "jinja/lexer.h"
#include "jinja/parser.h"
#include "jinja/unicode.h"

namespace decant::jinja {

namespace {

Status FailureStatus(const Failure& failure, int line) {
  if (failure.words() == FailureWords::kTemplate) return failure.status();
  std::string context = fmt::format("line {}", line);
  if (failure.status().code() == StatusCode::kUnimplemented) context += ": not supported";
  return failure.status().WithContext(context);
}

}  // namespace

std::tm LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  return local;
}

Expected<Template> Template::Parse(std::string_view source) {
  if (source.size() > kMaxSourceBytes) {
    return Error(StatusCode::kResourceExhausted, "{} bytes of template, more than {}",
                 source.size(), kMaxSourceBytes);
  }
  if (!IsUtf8(source)) return InvalidArgument("the template is not UTF-8");
  int line = 1;
  try {
    return Template(std::make_shared<const Tree>(ParseTokens(Tokenize(source, line), line)));
  } catch (const Failure& failure) {
    return FailureStatus(failure, line);
  }
}

Expected<std::string> Template::Render(const Dict& variables, const RenderOptions& options) const {
  Interpreter interpreter(*tree_, variables, options.limits, options.clock);
  try {
    return interpreter.Run();
  } catch (const Failure& failure) {
    return FailureStatus(failure, interpreter.line());
  }
}

}  // namespace decant::jinja
