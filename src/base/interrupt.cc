#include "base/interrupt.h"

#include <atomic>
#include <csignal>

namespace decant {
namespace {

std::atomic<bool> requested = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may not wait for a lock");

void OnSignal(int /*signal*/) {
  requested.store(true, std::memory_order_relaxed);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

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

bool InterruptRequested() { return requested.load(std::memory_order_relaxed); }

}  // namespace decant
