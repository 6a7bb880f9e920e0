#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/value.h"

namespace decant::jinja {

/// The variables of a block, and the scope around it. A lookup goes outwards, an assignment stays.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}

  /// The value of `name` here or further out, or null.
  const Value* Find(NameId name) const;
  void Set(NameId name, Value value);

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<NameId, Value>> values_;
};

struct BoundMethod {
  const MethodEntry* method = nullptr;
  Value self;
};

/// A macro, or the body of a call block, with the scope it was defined in.
struct Closure {
  std::shared_ptr<const MacroDefinition> definition;
  std::shared_ptr<Scope> scope;
};

struct Callable {
  std::variant<const FunctionEntry*, BoundMethod, Closure> target;
};

/// The namespaces and callables of one rendering. They live as long as it does, since what they
/// hold may hold them in turn.
struct Arena {
  std::deque<Namespace> namespaces;
  std::deque<Callable> callables;

  Value Add(Callable callable) {
    callables.push_back(std::move(callable));
    return Value(&callables.back());
  }
};

}  // namespace decant::jinja
