#include "server/json_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/parameter_reader.h"

namespace decant {
namespace {

using ::testing::HasSubstr;

TEST(JsonInputTest, ReadsWhatJsonIs) {
  const Json value =
      ParseJson(R"({"z": [1, -2, 1.5, true, null], "a": "\u00e9\ud83d\ude00"})").value();
  EXPECT_EQ(value.dump(), R"({"z":[1,-2,1.5,true,null],"a":"é😀"})");
  EXPECT_EQ(ParseJson("3").value(), 3);
}

TEST(JsonInputTest, RefusesHostileText) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"{} {}", "not JSON"},
      {"{'a': 1}", "not JSON"},
      {"[1,]", "not JSON"},
      {"NaN", "not JSON"},
      {"[Infinity]", "not JSON"},
      {"1e400", "not JSON"},
      {R"(["\ud800"])", "not JSON"},
      {R"(["\udc00"])", "not JSON"},
      {R"(["\ud800A"])", "not JSON"},
      {"[\"\xc0\xaf\"]", "not JSON"},          // overlong '/'
      {"[\"\xed\xa0\x80\"]", "not JSON"},      // a surrogate in UTF-8
      {"[\"\xf4\x90\x80\x80\"]", "not JSON"},  // above U+10FFFF
      {"[\"a\nb\"]", "not JSON"},
      {std::string("[\"a\0b\"]", 7), "not JSON"},
      {R"({"a": 1, "b": 2, "a": 3})", "'a' twice"},
      {std::string(65, '[') + std::string(65, ']'), "64 levels"},
      {std::string(1'000'000, '['), "64 levels"},
      {R"({"a":)" + std::string(100'000, '{'), "not JSON"},
  };
  for (const auto& [text, error] : cases) {
    const Status status = ParseJson(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text.substr(0, 40);
    EXPECT_THAT(status.message(), HasSubstr(error)) << text.substr(0, 40);
  }
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']')).ok());
}

TEST(JsonInputTest, CountsValuesAndKeys) {
  const JsonLimits limits{.values = 4, .keys_in_an_object = 2, .keys = 3};
  EXPECT_TRUE(ParseJson("[1, 2, 3]", limits).ok());
  EXPECT_THAT(ParseJson("[1, 2, 3, 4]", limits).status().message(),
              HasSubstr("more than 4 values"));
  EXPECT_THAT(ParseJson(R"({"a": 1, "b": 2, "c": 3})", limits).status().message(),
              HasSubstr("more than 2 keys"));
  EXPECT_THAT(
      ParseJson(R"([{"a": 1, "b": 2}, {"a": 1, "b": 2}])", {.keys_in_an_object = 2, .keys = 3})
          .status()
          .message(),
      HasSubstr("more than 3 keys"));
}

TEST(JsonInputTest, WholeNumbersAreExact) {
  const auto whole = [](const char* text) {
    return WholeNumber(ParseJson(text).value(), std::numeric_limits<int64_t>::min(),
                       std::numeric_limits<int64_t>::max());
  };
  EXPECT_EQ(whole("16.0"), 16);
  EXPECT_EQ(whole("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(whole("-9223372036854775808"), std::numeric_limits<int64_t>::min());
  for (const char* text : {"9223372036854775808", "-9223372036854775809", "1.5", "1e300", "true",
                           "\"1\"", "[1]", "null"}) {
    EXPECT_EQ(whole(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace decant
