#include "weights/json_metadata.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <string>

#include "base/testing/sanitized.h"

namespace decant {
namespace {

JsonMetadata Parse(std::string_view text) { return JsonMetadata::Parse("f.json", text).value(); }

std::string Refusal(std::string_view text) {
  return JsonMetadata::Parse("f.json", text).status().message();
}

TEST(JsonMetadataTest, GivesWhatIsThere) {
  const JsonMetadata json =
      Parse(R"({"i":-7,"f":1e-5,"s":"text","b":true,"n":null,"ids":[1,2],"names":["x"],)"
            R"("o":{"p":{"q":3}},"list":[{"a":1},{"a":2}]})");
  EXPECT_EQ(json.GetI32("i").value(), -7);
  EXPECT_EQ(json.GetF64("f").value(), 1e-5);
  EXPECT_EQ(json.GetF64("i").value(), -7.0);
  EXPECT_EQ(json.GetString("s").value(), "text");
  EXPECT_TRUE(json.GetBoolOr("b", false).value());
  EXPECT_FALSE(json.Has("n"));
  EXPECT_TRUE(json.IsNull("n"));
  EXPECT_FALSE(json.IsNull("missing"));
  EXPECT_EQ(json.GetI32Or("n", 5).value(), 5);
  EXPECT_EQ(json.GetI32List("ids").value(), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(json.GetI32List("i").value(), (std::vector<int32_t>{-7}));
  EXPECT_TRUE(json.GetI32List("missing").value().empty());
  EXPECT_EQ(json.GetStringList("names").value(), (std::vector<std::string>{"x"}));
  const JsonMetadata inner = json.GetObject("o").value().GetObject("p").value();
  EXPECT_EQ(inner.GetI32("q").value(), 3);
  EXPECT_EQ(inner.KeyName("q"), "o.p.q");
  EXPECT_EQ(json.GetObjectList("list").value()[1].KeyName("a"), "list[1].a");
  EXPECT_EQ(json.ObjectKeys(), (std::vector<std::string>{"o"}));
  EXPECT_EQ(json.Describe("o"), R"({"p":{"q":3}})");
}

TEST(JsonMetadataTest, NamesFileAndKeyOfWrongTypes) {
  const JsonMetadata json =
      Parse(R"({"big":2147483648,"s":"x","mixed":[1,"x"],"o":{"s":[]},"f":1.5})");
  const auto expect = [](const Status& status, std::string_view message) {
    EXPECT_EQ(status.message(), message);
  };
  expect(json.GetI32("big").status(), "f.json: big is 2147483648, not a 32-bit integer");
  expect(json.GetI32("f").status(), "f.json: f is 1.5, not a 32-bit integer");
  expect(json.GetI32Or("s", 1).status(), R"(f.json: s is "x", not a 32-bit integer)");
  expect(json.GetI32("none").status(), "f.json: no key none");
  expect(json.GetF64("s").status(), R"(f.json: s is "x", not a finite number)");
  expect(json.GetString("f").status(), "f.json: f is 1.5, not a string");
  expect(json.GetBoolOr("f", true).status(), "f.json: f is 1.5, not true or false");
  expect(json.GetI32List("mixed").status(),
         R"(f.json: mixed is [1,"x"], not a 32-bit integer or a list of them)");
  expect(json.GetStringList("mixed").status(),
         R"(f.json: mixed is [1,"x"], not a list of strings)");
  expect(json.GetObject("s").status(), R"(f.json: s is "x", not an object)");
  expect(json.GetObjectList("mixed").status(),
         R"(f.json: mixed is [1,"x"], not a list of objects)");
  expect(json.GetObject("o").value().GetString("s").status(), "f.json: o.s is [], not a string");
}

TEST(JsonMetadataTest, HostileTextCostsLittle) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  const std::clock_t start = std::clock();
  EXPECT_EQ(Refusal(""), "f.json: not valid JSON");
  EXPECT_EQ(Refusal("{\"a\":1"), "f.json: not valid JSON");
  EXPECT_EQ(Refusal("{\"a\":\xff}"), "f.json: not valid JSON");
  EXPECT_EQ(Refusal("{\"a\":1e400}"), "f.json: not valid JSON");
  EXPECT_EQ(Refusal("[1]"), "f.json: not a JSON object");
  EXPECT_EQ(Refusal(std::string(100, '[')), "f.json: JSON nested 100 deep; at most 64 is read");
  EXPECT_EQ(Refusal(std::string(JsonMetadata::kMaxBytes, '[')),
            "f.json: JSON nested 2097152 deep; at most 64 is read");
  EXPECT_EQ(Refusal(std::string(JsonMetadata::kMaxBytes + 1, ' ')),
            "f.json: 2097153 bytes of JSON; at most 2097152 are read");
  EXPECT_TRUE(JsonMetadata::Parse("f.json", R"({"a":"[[[[\"[[["})").ok());
  std::string wide = "{";
  for (int i = 0; wide.size() < JsonMetadata::kMaxBytes - 16; ++i)
    wide += fmt::format("\"{}\":1,", i);
  wide.back() = '}';
  EXPECT_TRUE(JsonMetadata::Parse("f.json", wide).ok());
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kSanitized ? 20 : 1);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 << 10);
}

}  // namespace
}  // namespace decant
