#include "base/interrupt.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>

namespace decant {
namespace {

TEST(InterruptDeathTest, TheFirstSignalAsksAndTheSecondKills) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        CatchInterrupts();
        if (InterruptRequested()) std::_Exit(1);
        std::raise(SIGINT);
        std::_Exit(InterruptRequested() ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        CatchInterrupts();
        std::raise(SIGTERM);
        std::raise(SIGINT);
        std::_Exit(3);
      },
      testing::KilledBySignal(SIGINT), "");
}

}  // namespace
}  // namespace decant
