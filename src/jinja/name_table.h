#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/ast.h"

namespace decant::jinja {

/// Gives each variable's name a number.
class NameTable {
 public:
  /// Fails for more than kMaxNames names: they bound what a variable's lookup costs.
  NameId Intern(std::string_view name);

  /// How often `name` was interned.
  int64_t Uses(std::string_view name) const;

  std::vector<std::string> Take() && { return std::move(names_); }

 private:
  struct Entry {
    NameId id = 0;
    int64_t uses = 0;
  };
  std::vector<std::string> names_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace decant::jinja
