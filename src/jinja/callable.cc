#include "jinja/callable.h"

namespace decant::jinja {

const Value* Scope::Find(NameId name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    for (const auto& [id, value] : scope->values_) {
      if (id == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(NameId name, Value value) {
  for (auto& [id, existing] : values_) {
    if (id == name) {
      existing = std::move(value);
      return;
    }
  }
  values_.emplace_back(name, std::move(value));
}

}  // namespace decant::jinja
