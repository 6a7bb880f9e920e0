#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/piece_scanner.h"
#include "text/regex.h"
#include "text/tokenizer_data.h"

namespace decant {

/// Takes the pieces of a text in order. A piece is valid during the call only.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Add(std::string_view piece) = 0;
};

/// Cuts text into the pieces within which tokens merge (what tokenizer.json calls pre-tokenizer).
/// Thread-safe: const and without state.
class Splitter {
 public:
  static constexpr size_t kMaxSteps = 64;

  /// kInvalidArgument for too many steps or a bad pattern; kUnimplemented where kByteLevel is not
  /// the last step, and for what Regex::Compile does not support.
  static Expected<Splitter> Create(std::span<const SplitStep> steps);

  /// Gives the pieces of `text`, which must be well-formed and normalised, to `sink`; no piece is
  /// empty. `at_start`: whether it begins the whole text (PrependScheme::kFirst asks).
  void Split(std::string_view text, bool at_start, PieceSink& sink) const;

 private:
  struct Step {
    SplitStep rule;
    std::optional<PieceScanner> scanner;
    std::optional<Regex> regex;
  };
  class Segments;

  static Expected<Step> MakeStep(const SplitStep& rule, bool is_last);

  /// `piece` through the steps from `step` on.
  void Run(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const;
  void RunPattern(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const;
  void RunClasses(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const;
  void RunByteLevel(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const;
  void RunMetaspace(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const;

  std::vector<Step> steps_;
};

}  // namespace decant
