#include "base/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
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

/// Writes to a pipe that nobody reads and says by its exit status what came of it.
void WriteToClosedPipe(ClosedPipe closed_pipe) {
  CatchFailedWrites(closed_pipe);
  int ends[2];
  if (pipe(ends) != 0) std::_Exit(9);
  close(ends[0]);
  if (write(ends[1], "x", 1) != -1 || errno != EPIPE) std::_Exit(8);
  const bool stopped = InterruptRequested();
  ForgetInterrupt();
  std::_Exit((stopped ? 1 : 0) + (InterruptRequested() ? 2 : 0) + (PipeClosed() ? 4 : 0));
}

TEST(InterruptDeathTest, AClosedPipeStopsOrIsIgnored) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(WriteToClosedPipe(ClosedPipe::kStops), testing::ExitedWithCode(7), "");
  EXPECT_EXIT(WriteToClosedPipe(ClosedPipe::kIgnored), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace decant
