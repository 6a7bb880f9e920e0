#include <optional>
#include <utility>

#include "jinja/attributes.h"
#include "jinja/depth_guard.h"
#include "jinja/failure.h"
#include "jinja/interpreter.h"
#include "jinja/operators.h"
#include "jinja/value_text.h"

namespace decant::jinja {

Value Interpreter::Evaluate(const Expression& expression, const ScopePtr& scope) {
  const DepthGuard guard(depth_, kMaxRenderDepth);
  budget_.Step();
  line_ = expression.line;
  return std::visit([&](const auto& node) { return Get(node, scope); }, expression.node);
}

Value Interpreter::Get(const Literal& node, const ScopePtr& /*scope*/) { return node.value; }

Value Interpreter::Get(const NameLookup& node, const ScopePtr& scope) {
  if (const Value* value = scope->Find(node.name)) return *value;
  return MakeUndefined(
      fmt::format("'{}' is undefined", tree_.names[static_cast<size_t>(node.name)]));
}

Value Interpreter::Get(const SequenceDisplay& node, const ScopePtr& scope) {
  std::vector<Value> items;
  items.reserve(node.items.size());
  for (const ExpressionPtr& item : node.items) items.push_back(Evaluate(*item, scope));
  return MakeCountedList(budget_, node.kind, std::move(items));
}

Value Interpreter::Get(const DictDisplay& node, const ScopePtr& scope) {
  Dict dict;
  for (const auto& [key, value] : node.entries) {
    Value key_value = Evaluate(*key, scope);
    budget_.Work(sizeof(Dict::Entry));
    dict.Set(std::move(key_value), Evaluate(*value, scope));
  }
  return MakeDict(std::move(dict));
}

Value Interpreter::Get(const Unary& node, const ScopePtr& scope) {
  return ApplyUnary(node.op, Evaluate(*node.operand, scope));
}

Value Interpreter::Get(const Binary& node, const ScopePtr& scope) {
  const Value left = Evaluate(*node.left, scope);
  return ApplyBinary(budget_, node.op, left, Evaluate(*node.right, scope));
}

Value Interpreter::Get(const Logical& node, const ScopePtr& scope) {
  Value left = Evaluate(*node.left, scope);
  if (IsTrue(left) == (node.op == LogicalOperator::kOr)) return left;
  return Evaluate(*node.right, scope);
}

Value Interpreter::Get(const Comparison& node, const ScopePtr& scope) {
  Value left = Evaluate(*node.first, scope);
  for (const auto& [op, operand] : node.rest) {
    Value right = Evaluate(*operand, scope);
    if (!Compare(budget_, op, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::Get(const Concatenation& node, const ScopePtr& scope) {
  std::string out;
  for (const ExpressionPtr& part : node.parts) AppendText(budget_, Evaluate(*part, scope), out);
  return Value(std::move(out));
}

Value Interpreter::Get(const Conditional& node, const ScopePtr& scope) {
  if (IsTrue(Evaluate(*node.condition, scope))) return Evaluate(*node.then, scope);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise, scope);
  return MakeUndefined("an 'if' without an 'else' was false");
}

Value Interpreter::Get(const AttributeLookup& node, const ScopePtr& scope) {
  return GetAttribute(context_, Evaluate(*node.object, scope), node.name);
}

Value Interpreter::Get(const Subscript& node, const ScopePtr& scope) {
  const Value object = Evaluate(*node.object, scope);
  return GetItem(context_, object, Evaluate(*node.index, scope));
}

Value Interpreter::Get(const Slice& node, const ScopePtr& scope) {
  const Value object = Evaluate(*node.object, scope);
  const auto bound = [&](const ExpressionPtr& expression) {
    return expression == nullptr ? Value(None{}) : Evaluate(*expression, scope);
  };
  const Value start = bound(node.start);
  const Value stop = bound(node.stop);
  const Value step = bound(node.step);
  return GetSlice(context_, object, &start, &stop, &step);
}

Value Interpreter::Get(const Call& node, const ScopePtr& scope) {
  return CallWith(node, {}, scope);
}

Value Interpreter::Get(const FilterCall& node, const ScopePtr& scope) {
  const Value input = Evaluate(*node.input, scope);
  return node.filter->apply(context_, input, EvaluateArguments(node.arguments, scope));
}

Value Interpreter::Get(const TestCall& node, const ScopePtr& scope) {
  const Value subject = Evaluate(*node.subject, scope);
  return Value(node.test->apply(context_, subject, EvaluateArguments(node.arguments, scope)));
}

Value Interpreter::Get(const CapturedText& /*node*/, const ScopePtr& /*scope*/) {
  return std::exchange(captured_, Value());
}

Arguments Interpreter::EvaluateArguments(const ArgumentExpressions& arguments,
                                         const ScopePtr& scope) {
  Arguments values;
  values.positional.reserve(arguments.positional.size());
  for (const ExpressionPtr& value : arguments.positional) {
    values.positional.push_back(Evaluate(*value, scope));
  }
  for (const auto& [name, value] : arguments.named) {
    values.named.emplace_back(name, Evaluate(*value, scope));
  }
  if (arguments.more_positional != nullptr) {
    for (const Value& value : Iterate(budget_, Evaluate(*arguments.more_positional, scope))) {
      budget_.Work(sizeof(Value));
      values.positional.push_back(value);
    }
  }
  if (arguments.more_named != nullptr) {
    const Value more = Evaluate(*arguments.more_named, scope);
    if (!more.is(Value::Kind::kDict)) Fail("'**' needs a dict, not {}", TypeName(more));
    for (const Dict::Entry& entry : more.dict().entries()) {
      budget_.Work(sizeof(Dict::Entry));
      values.named.emplace_back(PlainText(entry.key, "'**'"), entry.value);
    }
  }
  return values;
}

Value Interpreter::CallWith(const Call& node, Arguments extra, const ScopePtr& scope) {
  const auto arguments = [&] {
    Arguments values = EvaluateArguments(node.arguments, scope);
    for (auto& named : extra.named) values.named.push_back(std::move(named));
    return values;
  };
  const auto* attribute = std::get_if<AttributeLookup>(&node.callee->node);
  if (attribute == nullptr) return CallValue(Evaluate(*node.callee, scope), arguments());
  // The common x.method(...), without an object for the bound method.
  const Value object = Evaluate(*attribute->object, scope);
  if (const MethodEntry* method = FindMethod(object, attribute->name)) {
    return method->apply(context_, object, arguments());
  }
  return CallValue(GetAttribute(context_, object, attribute->name), arguments());
}

Value Interpreter::CallValue(const Value& callee, const Arguments& arguments) {
  if (callee.is(Value::Kind::kUndefined)) Fail("{}", WhyUndefined(callee));
  if (!callee.is(Value::Kind::kCallable)) Fail("a {} cannot be called", TypeName(callee));
  const auto& target = callee.callable().target;
  if (const auto* function = std::get_if<const FunctionEntry*>(&target)) {
    return (*function)->apply(context_, arguments);
  }
  if (const auto* bound = std::get_if<BoundMethod>(&target)) {
    return bound->method->apply(context_, bound->self, arguments);
  }
  return CallMacro(std::get<Closure>(target), arguments);
}

Value Interpreter::CallMacro(const Closure& closure, const Arguments& arguments) {
  const MacroDefinition& macro = *closure.definition;
  const auto scope = std::make_shared<Scope>(closure.scope);
  const size_t unnamed = std::min(arguments.positional.size(), macro.parameters.size());
  std::vector<Value> rest(arguments.positional.begin() + static_cast<std::ptrdiff_t>(unnamed),
                          arguments.positional.end());
  if (!rest.empty() && !macro.varargs.has_value()) {
    Fail("the macro '{}' takes {} arguments, not {}", macro.name, macro.parameters.size(),
         arguments.positional.size());
  }
  std::vector<std::optional<Value>> given(macro.parameters.size());
  for (size_t i = 0; i < unnamed; ++i) given[i] = arguments.positional[i];
  Value caller = MakeUndefined("there is no caller");
  Dict others;
  for (const auto& [name, value] : arguments.named) {
    size_t i = unnamed;
    while (i < given.size() && macro.parameters[i].text != name) ++i;
    if (i < given.size()) {
      given[i] = value;
    } else if (name == "caller" && macro.caller.has_value()) {
      caller = value;
    } else if (macro.kwargs.has_value()) {
      others.Set(Value(name), value);
    } else {
      Fail("the macro '{}' has no parameter '{}'", macro.name, name);
    }
  }
  for (size_t i = 0; i < given.size(); ++i) {
    const MacroDefinition::Parameter& parameter = macro.parameters[i];
    if (given[i].has_value()) {
      scope->Set(parameter.name, *given[i]);
    } else if (parameter.default_value != nullptr) {
      scope->Set(parameter.name, Evaluate(*parameter.default_value, scope));
    } else {
      scope->Set(parameter.name,
                 MakeUndefined(fmt::format("the parameter '{}' was not given", parameter.text)));
    }
  }
  if (macro.varargs.has_value()) {
    scope->Set(*macro.varargs, MakeCountedList(budget_, SequenceKind::kTuple, std::move(rest)));
  }
  if (macro.kwargs.has_value()) scope->Set(*macro.kwargs, MakeDict(std::move(others)));
  if (macro.caller.has_value()) scope->Set(*macro.caller, caller);
  return Value(Capture(macro.body, scope));
}

}  // namespace decant::jinja
