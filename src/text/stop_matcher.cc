#include "text/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "text/utf8.h"

namespace decant {
namespace {

std::vector<size_t> BordersOf(std::string_view text) {
  std::vector<size_t> border(text.size() + 1, 0);
  for (size_t n = 2; n <= text.size(); ++n) {
    size_t length = border[n - 1];
    while (length > 0 && text[length] != text[n - 1]) length = border[length];
    border[n] = text[length] == text[n - 1] ? length + 1 : 0;
  }
  return border;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}

Expected<StopMatcher> StopMatcher::Create(std::vector<std::string> stops) {
  if (stops.size() > kMaxStrings) {
    return InvalidArgument("{} stop strings; at most {} are allowed", stops.size(), kMaxStrings);
  }
  size_t total = 0;
  std::vector<Pattern> patterns;
  for (std::string& stop : stops) {
    if (stop.empty()) return InvalidArgument("stop string {} is empty", patterns.size());
    if (!IsUtf8(stop)) return InvalidArgument("stop string {} is not UTF-8", patterns.size());
    total += stop.size();
    if (total > kMaxTotalBytes) {
      return InvalidArgument("the stop strings have more than {} bytes together", kMaxTotalBytes);
    }
    std::vector<size_t> border = BordersOf(stop);
    patterns.push_back({.text = std::move(stop), .border = std::move(border)});
  }
  return StopMatcher(std::move(patterns));
}

void StopMatcher::Pattern::Advance(char c) {
  while (matched > 0 && text[matched] != c) matched = border[matched];
  if (text[matched] == c) ++matched;
}

StopMatcher::Result StopMatcher::Push(std::string_view piece) {
  if (stopped_) return {.text = {}, .stopped = true};
  for (const char c : piece) {
    held_.push_back(c);
    size_t found = 0;
    for (Pattern& pattern : patterns_) {
      pattern.Advance(c);
      if (pattern.matched == pattern.text.size()) found = std::max(found, pattern.matched);
    }
    if (found > 0) {
      stopped_ = true;
      held_.resize(held_.size() - found);
      return {.text = std::exchange(held_, {}), .stopped = true};
    }
  }
  size_t suspect = 0;  // How many bytes at the end may belong to a stop string.
  for (const Pattern& pattern : patterns_) suspect = std::max(suspect, pattern.matched);
  std::string safe = held_.substr(0, held_.size() - suspect);
  held_.erase(0, safe.size());
  return {.text = std::move(safe), .stopped = false};
}

std::string StopMatcher::Flush() { return std::exchange(held_, {}); }

}  // namespace decant
