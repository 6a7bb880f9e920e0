#include "jinja/name_table.h"

#include "jinja/failure.h"
#include "jinja/parser.h"

namespace decant::jinja {

NameId NameTable::Intern(std::string_view name) {
  auto found = entries_.find(name);
  if (found == entries_.end()) {
    if (names_.size() >= kMaxNames) FailLimit("more than {} variables", kMaxNames);
    names_.emplace_back(name);
    found = entries_.emplace(name, Entry{.id = static_cast<NameId>(names_.size() - 1)}).first;
  }
  ++found->second.uses;
  return found->second.id;
}

int64_t NameTable::Uses(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? 0 : found->second.uses;
}

}  // namespace decant::jinja
