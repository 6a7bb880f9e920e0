#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "text/tokenizer_data.h"

namespace decant {

/// How many times longer, at most, text becomes where `content` takes each match's place.
size_t GrowthOf(const TextPattern& pattern, std::string_view content);

/// A compiled TextPattern. Thread-safe: const and without state.
/// Letters and the like are those of the PCRE2 library's Unicode version (14.0 in PCRE2 10.42).
class Regex {
 public:
  struct Match {
    size_t begin = 0;  ///< Byte offsets.
    size_t end = 0;
  };

  static constexpr size_t kMaxPatternBytes = 65536;

  /// kInvalidArgument for a pattern that is empty, too long, no UTF-8 or no regular expression;
  /// kUnimplemented for what regex_syntax.h does not know and for a pattern whose work, on runs of
  /// one character and the like, grows faster than the text, so that text of a user could stop the
  /// process.
  static Expected<Regex> Compile(const TextPattern& pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Finds one match after the other in a text, as the Python `tokenizers` library does: leftmost,
  /// not overlapping, and no empty match right behind another match.
  class Finder {
   public:
    /// `text`, well-formed UTF-8, and `regex` must outlive it.
    Finder(const Regex& regex, std::string_view text);

    /// The next match. None, too, where the engine's limits (steps, memory) end the search: what is
    /// left then counts as text without a match.
    std::optional<Match> Next();

   private:
    const Regex* regex_;
    std::string_view text_;
    size_t from_ = 0;
    std::optional<size_t> last_end_;
  };

 private:
  struct Program;
  explicit Regex(std::unique_ptr<Program> program);

  std::unique_ptr<Program> program_;
};

}  // namespace decant
