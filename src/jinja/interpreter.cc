#include "jinja/interpreter.h"

#include <algorithm>
#include <optional>

#include "jinja/attributes.h"
#include "jinja/depth_guard.h"
#include "jinja/failure.h"
#include "jinja/loop.h"
#include "jinja/operators.h"
#include "jinja/value_text.h"

namespace decant::jinja {

Interpreter::Interpreter(const Tree& tree, const Dict& variables, const RenderLimits& limits,
                         const Clock& clock)
    : tree_(tree),
      budget_(limits),
      context_{budget_, clock, arena_},
      root_(std::make_shared<Scope>(nullptr)) {
  for (size_t i = 0; i < tree.names.size(); ++i) {
    const auto name = static_cast<NameId>(i);
    if (const Value* value = variables.FindText(tree.names[i])) {
      root_->Set(name, *value);
    } else if (const FunctionEntry* function = FindFunction(tree.names[i])) {
      root_->Set(name, arena_.Add({function}));
    }
  }
}

std::string Interpreter::Run() {
  Execute(tree_.body, root_);
  return std::move(output_);
}

Interpreter::Flow Interpreter::Execute(const Body& body, const ScopePtr& scope) {
  const DepthGuard guard(depth_, kMaxRenderDepth);
  for (const Statement& statement : body) {
    budget_.Step();
    line_ = statement.line;
    const Flow flow =
        std::visit([&](const auto& node) { return Run(node, scope); }, statement.node);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

void Interpreter::Write(const std::string& text) {
  budget_.Output(out_->size() + text.size());
  *out_ += text;
}

void Interpreter::WriteText(const Value& value, std::string_view block) {
  if (!value.is(Value::Kind::kText)) Fail("{} makes a str, not {}", block, TypeName(value));
  AppendText(budget_, value, *out_);
  budget_.Output(out_->size());
}

Interpreter::Flow Interpreter::Run(const DataOutput& node, const ScopePtr& /*scope*/) {
  budget_.Work(node.text.size());
  Write(node.text);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const ExpressionOutput& node, const ScopePtr& scope) {
  const Value value = Evaluate(*node.value, scope);
  AppendText(budget_, value, *out_);
  budget_.Output(out_->size());
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const If& node, const ScopePtr& scope) {
  for (const auto& [condition, body] : node.branches) {
    if (IsTrue(Evaluate(*condition, scope))) return Execute(body, scope);
  }
  return Execute(node.otherwise, scope);
}

Interpreter::Flow Interpreter::Run(const For& node, const ScopePtr& scope) {
  const Value iterable = Evaluate(*node.iterable, scope);
  Loop::Filter filter;
  if (node.filter != nullptr) {
    filter = [this, &node, scope](const Value& item) {
      const auto inner = std::make_shared<Scope>(scope);
      Assign(node.target, item, *inner);
      return IsTrue(Evaluate(*node.filter, inner));
    };
  }
  const auto loop = std::make_shared<Loop>(Iterate(budget_, iterable).shared(), std::move(filter));
  // As in jinja2, a turn that ends in break or continue does not keep the else away.
  bool completed_turn = false;
  while (const std::optional<Value> item = loop->Next()) {
    budget_.Step();
    const auto inner = std::make_shared<Scope>(scope);
    inner->Set(node.loop_name, Value(loop));
    Assign(node.target, *item, *inner);
    const Flow flow = Execute(node.body, inner);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) completed_turn = true;
  }
  loop->Finish();
  if (completed_turn) return Flow::kNormal;
  return Execute(node.otherwise, std::make_shared<Scope>(scope));
}

Interpreter::Flow Interpreter::Run(const Set& node, const ScopePtr& scope) {
  Assign(node.target, Evaluate(*node.value, scope), *scope);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const SetBlock& node, const ScopePtr& scope) {
  Assign(node.target, Filtered(node.body, *node.value, scope), *scope);
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const FilterBlock& node, const ScopePtr& scope) {
  WriteText(Filtered(node.body, *node.value, scope), "a filter block");
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const ScopedBlock& node, const ScopePtr& scope) {
  const auto inner = std::make_shared<Scope>(scope);
  // As in jinja2, the values see the scope around the block, not each other.
  for (const auto& [target, value] : node.assignments) {
    Assign(target, Evaluate(*value, scope), *inner);
  }
  return Execute(node.body, inner);
}

Interpreter::Flow Interpreter::Run(const Macro& node, const ScopePtr& scope) {
  budget_.Work(sizeof(Callable));
  scope->Set(node.name, arena_.Add({Closure{node.definition, scope}}));
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const CallBlock& node, const ScopePtr& scope) {
  budget_.Work(sizeof(Callable));
  Arguments extra;
  extra.named.emplace_back("caller", arena_.Add({Closure{node.caller, scope}}));
  const Value value = CallWith(std::get<Call>(node.call->node), std::move(extra), scope);
  WriteText(value, "a call block");
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::Run(const Break& /*node*/, const ScopePtr& /*scope*/) {
  return Flow::kBreak;
}

Interpreter::Flow Interpreter::Run(const Continue& /*node*/, const ScopePtr& /*scope*/) {
  return Flow::kContinue;
}

void Interpreter::Assign(const Target& target, const Value& value, Scope& scope) {
  if (const auto* name = std::get_if<NameId>(&target.to)) {
    scope.Set(*name, value);
    return;
  }
  if (const auto* attribute = std::get_if<NamespaceTarget>(&target.to)) {
    const Value* space = scope.Find(attribute->space);
    if (space == nullptr || !space->is(Value::Kind::kNamespace)) {
      Fail("'{}' is not a namespace: its attribute cannot be assigned to",
           tree_.names[static_cast<size_t>(attribute->space)]);
    }
    CheckNamespaceName(attribute->attribute);
    budget_.Work(sizeof(Dict::Entry));
    space->space().attributes.Set(Value(attribute->attribute), value);
    return;
  }
  const auto& targets = std::get<std::vector<Target>>(target.to);
  const Items items = Iterate(budget_, value);
  if (items.size() != targets.size()) {
    Fail("{} values for {} names", items.size(), targets.size());
  }
  for (size_t i = 0; i < targets.size(); ++i) Assign(targets[i], items[i], scope);
}

std::string Interpreter::Capture(const Body& body, const ScopePtr& scope) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  Execute(body, scope);
  out_ = outer;
  return text;
}

Value Interpreter::Filtered(const Body& body, const Expression& value, const ScopePtr& scope) {
  captured_ = Value(Capture(body, std::make_shared<Scope>(scope)));
  return Evaluate(value, scope);
}

}  // namespace decant::jinja
