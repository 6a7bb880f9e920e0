#include "base/log.h"

#include <gtest/gtest.h>

namespace decant {
namespace {

TEST(LogTest, ParsesLevels) {
  ASSERT_TRUE(ParseLogLevel("warning").ok());
  EXPECT_EQ(*ParseLogLevel("warning"), LogLevel::kWarning);
  const Expected<LogLevel> bad = ParseLogLevel("loud");
  ASSERT_FALSE(bad.ok());
  EXPECT_EQ(bad.status().message(), "log level 'loud' is none of debug, info, warning, error, off");
  EXPECT_FALSE(ParseLogLevel("").ok());
}

TEST(LogTest, WritesItsLevelAndAbove) {
  SetLogLevel(LogLevel::kWarning);
  testing::internal::CaptureStderr();
  LogInfo("quiet {}", 1);
  LogWarning("loud {}", 2);
  LogError("{}", "braces {} in a value are text");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text.find("quiet"), std::string::npos) << text;
  EXPECT_NE(text.find("warning"), std::string::npos) << text;
  EXPECT_NE(text.find("loud 2\n"), std::string::npos) << text;
  EXPECT_NE(text.find("braces {} in a value are text\n"), std::string::npos) << text;

  SetLogLevel(LogLevel::kOff);
  testing::internal::CaptureStderr();
  LogError("nothing");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  SetLogLevel(LogLevel::kInfo);
}

}  // namespace
}  // namespace decant
