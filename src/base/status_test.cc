#include "base/status.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace decant {
namespace {

Expected<int> Half(int value) {
  if (value % 2 != 0) return InvalidArgument("{} is odd", value);
  return value / 2;
}

Expected<std::unique_ptr<int>> QuarterOnHeap(int value) {
  DECANT_ASSIGN_OR_RETURN(const int half, Half(value));
  DECANT_ASSIGN_OR_RETURN(auto quarter, Half(half));
  return std::make_unique<int>(quarter);
}

Status Check(int value) {
  DECANT_RETURN_IF_ERROR(Half(value).status());
  return Status();
}

TEST(StatusTest, ErrorsTravelThroughTheMacros) {
  ASSERT_TRUE(QuarterOnHeap(12).ok());
  EXPECT_EQ(**QuarterOnHeap(12), 3);
  EXPECT_EQ(QuarterOnHeap(6).status().ToString(), "invalid argument: 3 is odd");
  EXPECT_EQ(Check(5).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Check(4).ok());
}

TEST(StatusTest, ContextComesFirst) {
  EXPECT_EQ(Check(5).WithContext("model.gguf").message(), "model.gguf: 5 is odd");
  EXPECT_TRUE(Status().WithContext("model.gguf").ok());
}

TEST(StatusDeathTest, ValueOfAnErrorAborts) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(static_cast<void>(Half(3).value()), "3 is odd");
  EXPECT_DEATH(static_cast<void>(Expected<int>(Status())), "needs an error");
}

}  // namespace
}  // namespace decant
