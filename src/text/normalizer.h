#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/regex.h"
#include "text/tokenizer_data.h"

namespace decant {

/// What happens to a section of text (what lies between added tokens) before it is split.
/// Thread-safe: const and without state.
class Normalizer {
 public:
  static constexpr size_t kMaxSteps = 64;
  static constexpr size_t kMaxContentBytes = 256;  ///< What one match or one text may grow by.

  /// Of a text, by all replacements together: megabytes of a client's must not become gigabytes.
  static constexpr size_t kMaxGrowth = 32;

  /// kInvalidArgument for too many steps, too much content or growth, a bad pattern.
  static Expected<Normalizer> Create(std::span<const NormalizerStep> steps);

  /// `text`, which must be well-formed, or what the steps make of it, kept in `storage`.
  std::string_view Apply(std::string_view text, std::string& storage) const;

 private:
  struct Step {
    NormalizerStep rule;
    std::optional<Regex> regex;  ///< Of kReplace, where the pattern is one.
  };

  /// Whether `step` changes `text`; what it makes is in `out` then.
  static bool ApplyStep(const Step& step, std::string_view text, std::string& out);

  std::vector<Step> steps_;
};

}  // namespace decant
