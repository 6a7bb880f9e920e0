#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/random.h"
#include "text/utf8.h"

namespace decant {
namespace {

struct Outcome {
  std::string text;
  bool stopped = false;
  bool operator==(const Outcome&) const = default;
};

/// The definition: the shortest beginning of `text` that ends with a stop string, less the longest
/// stop string that it ends with.
Outcome SearchWhole(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    const std::string_view beginning = std::string_view(text).substr(0, end);
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (beginning.ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {std::string(beginning.substr(0, end - longest)), true};
  }
  return {text, false};
}

TEST(StopMatcherTest, HoldsBackWhatMayBecomeAStopString) {
  StopMatcher matcher = StopMatcher::Create({"\nUser:", "END"}).value();
  EXPECT_EQ(matcher.Push("Hello\nUs").text, "Hello");
  EXPECT_EQ(matcher.Push("").text, "");
  EXPECT_EQ(matcher.Push("ual EN").text, "\nUsual ");
  EXPECT_EQ(matcher.Push("EN").text, "EN");
  const StopMatcher::Result last = matcher.Push("D and more");
  EXPECT_EQ(last.text, "");
  EXPECT_TRUE(last.stopped);
  const StopMatcher::Result after = matcher.Push("x");
  EXPECT_EQ(after.text, "");
  EXPECT_TRUE(after.stopped);
  EXPECT_EQ(matcher.Flush(), "");
}

TEST(StopMatcherTest, GivesBackWhatItHeldAtTheEnd) {
  StopMatcher matcher = StopMatcher::Create({"aab"}).value();
  EXPECT_EQ(matcher.Push("xaaa").text, "xa");
  EXPECT_EQ(matcher.Flush(), "aa");
}

TEST(StopMatcherTest, RefusesWhatCannotBeAStopString) {
  EXPECT_TRUE(StopMatcher::Create({}).ok());
  const auto message = [](std::vector<std::string> stops) {
    return StopMatcher::Create(std::move(stops)).status().ToString();
  };
  EXPECT_EQ(message({"a", ""}), "invalid argument: stop string 1 is empty");
  EXPECT_EQ(message({"\xFF"}), "invalid argument: stop string 0 is not UTF-8");
  EXPECT_EQ(message(std::vector<std::string>(17, "a")),
            "invalid argument: 17 stop strings; at most 16 are allowed");
  EXPECT_EQ(message({std::string(4000, 'a'), std::string(97, 'b')}),
            "invalid argument: the stop strings have more than 4096 bytes together");
}

TEST(StopMatcherTest, FindsWhatASearchOfTheWholeTextFinds) {
  const CounterRng rng(3);
  uint64_t counter = 0;
  const auto below = [&](uint64_t bound) { return rng.Below(counter++, bound); };
  const std::vector<std::string> letters = {"a", "b", "é", "è", "€"};
  const auto word = [&](uint64_t longest, uint64_t alphabet) {
    std::string text;
    for (uint64_t n = 1 + below(longest); n > 0; --n) text += letters[below(alphabet)];
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 5000; ++round) {
    const uint64_t alphabet = 2 + below(4);
    std::vector<std::string> stops;
    for (uint64_t n = below(4); n > 0; --n) stops.push_back(word(8, alphabet));
    StopMatcher matcher = StopMatcher::Create(stops).value();
    std::string whole;
    Outcome got;
    for (uint64_t pieces = below(12); pieces > 0; --pieces) {
      const std::string piece = word(6, alphabet);
      whole += piece;
      const StopMatcher::Result result = matcher.Push(piece);
      ASSERT_TRUE(IsUtf8(result.text));
      got.text += result.text;
      got.stopped = result.stopped;
      const Outcome so_far = SearchWhole(stops, whole);
      ASSERT_EQ(got.stopped, so_far.stopped);
      ASSERT_TRUE(so_far.text.starts_with(got.text)) << "leaked a part of a stop string";
    }
    got.text += matcher.Flush();
    ASSERT_EQ(got, SearchWhole(stops, whole)) << whole;
    stopped += got.stopped ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_LT(stopped, 4000);
}

}  // namespace
}  // namespace decant
