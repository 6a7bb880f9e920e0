#pragma once

#include <string>
#include <vector>

namespace decant {

/// A table for people: columns as wide as their widest cell, two spaces between them; the first
/// column stands left, the others right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> columns);

  /// `cells` has one for each column, in UTF-8 without line breaks.
  void AddRow(std::vector<std::string> cells);

  /// All lines, each with its line break; a rule under the names.
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first holds the names
};

}  // namespace decant
