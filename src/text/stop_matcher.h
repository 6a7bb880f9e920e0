#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace decant {

/// Watches a stream of text for stop strings. Text that may still become one is held back, so that
/// no part of a stop string is ever shown. The match that ends first in the text counts (of those
/// that end together, the longest), so that the outcome does not depend on how the text is cut into
/// pieces; text before it is emitted, the stop string and what follows it are not.
class StopMatcher {
 public:
  static constexpr size_t kMaxStrings = 16;
  static constexpr size_t kMaxTotalBytes = 4096;

  struct Result {
    std::string text;      ///< Safe to show.
    bool stopped = false;  ///< A stop string was found, now or before.
  };

  /// kInvalidArgument for a stop string that is empty or not UTF-8 and for stop strings over the
  /// limits above. None at all is fine: everything is safe.
  static Expected<StopMatcher> Create(std::vector<std::string> stops);

  /// The next piece of the stream. Once stopped, pieces are swallowed. Of whole code points it
  /// emits whole code points. Takes time linear in `piece` times the number of stop strings.
  Result Push(std::string_view piece);

  /// The end of the stream: what was held back.
  std::string Flush();

 private:
  /// One stop string and how much of it the text ends with (Knuth, Morris, Pratt, 1977).
  struct Pattern {
    std::string text;
    std::vector<size_t> border;  ///< border[n]: longest proper prefix of text[0, n) that ends it.
    size_t matched = 0;

    void Advance(char c);
  };

  explicit StopMatcher(std::vector<Pattern> patterns);

  std::vector<Pattern> patterns_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace decant
