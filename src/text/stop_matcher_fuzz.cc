// The stop matcher: a text in pieces gives what a search of the whole gives. The first line says
// how the text is cut, a byte a piece; then stop strings, a line each, up to an empty line; then
// the text.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "text/stop_matcher.h"
#include "text/utf8.h"

namespace decant {
namespace {

/// What a search of a whole text finds.
struct Found {
  std::string_view text;                ///< Before the stop string, or all of it.
  size_t end = std::string_view::npos;  ///< Of the stop string.
};

/// The definition: the shortest beginning of `text` that ends with a stop string, less the longest
/// stop string that it ends with.
Found SearchWhole(const std::vector<std::string>& stops, std::string_view text) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string_view beginning = text.substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (beginning.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {beginning.substr(0, end - longest), end};
  }
  return {text};
}

void CheckPieces(StopMatcher matcher, const std::vector<std::string>& stops, std::string_view cuts,
                 std::string_view text) {
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  const Found found = SearchWhole(stops, text);
  std::string shown;
  size_t given = 0;
  for (size_t turn = 0; given < text.size(); ++turn) {
    const size_t length = cuts.empty() ? text.size() : 1 + cuts[turn % cuts.size()] % size_t{16};
    const std::string_view piece = text.substr(given, length);
    given += piece.size();
    const StopMatcher::Result result = matcher.Push(piece);
    shown += result.text;
    DECANT_CHECK(result.stopped == (given >= found.end));
    DECANT_CHECK(found.text.starts_with(shown), "a part of a stop string was shown");
    DECANT_CHECK(result.stopped || given - shown.size() < std::max<size_t>(longest, 1),
                 "more is held back than can become a stop string");
  }
  shown += matcher.Flush();
  DECANT_CHECK(shown == found.text);
  DECANT_CHECK(!IsUtf8(text) || IsUtf8(shown));
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  testing::FuzzInput input(data, std::min<size_t>(size, 4096));
  const std::string_view cuts = input.Until("\n");
  std::vector<std::string> stops;
  for (std::string_view line = input.Until("\n"); !line.empty(); line = input.Until("\n")) {
    stops.emplace_back(line);
  }
  Expected<StopMatcher> matcher = StopMatcher::Create(stops);
  if (!matcher.ok()) {
    DECANT_CHECK(matcher.status().code() == StatusCode::kInvalidArgument);
    return 0;
  }
  CheckPieces(*std::move(matcher), stops, cuts, input.rest());
  return 0;
}
