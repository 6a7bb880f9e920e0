#include "base/interrupt.h"

#include <atomic>
#include <csignal>

namespace decant {
namespace {

std::atomic<bool> requested = false;
std::atomic<bool> pipe_closed = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

void OnSignal(int /*signal*/) {
  requested.store(true, std::memory_order_relaxed);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void OnClosedPipe(int /*signal*/) { pipe_closed.store(true, std::memory_order_relaxed); }

}  // namespace

void CatchInterrupts() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a read that waits for the person returns, so that the program can stop.
  action.sa_flags = 0;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void ForgetInterrupt() {
  requested.store(false, std::memory_order_relaxed);
  CatchInterrupts();
}

void CatchFailedWrites(ClosedPipe closed_pipe) {
  struct sigaction action {};
  action.sa_handler = closed_pipe == ClosedPipe::kStops ? OnClosedPipe : SIG_IGN;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGPIPE, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);
}

bool PipeClosed() { return pipe_closed.load(std::memory_order_relaxed); }

bool InterruptRequested() { return requested.load(std::memory_order_relaxed) || PipeClosed(); }

}  // namespace decant
