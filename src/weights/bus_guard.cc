#include "weights/bus_guard.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace decant {
namespace {

/// A mapped file, as the handler reads it: `begin` is written last and cleared first.
struct Mapping {
  std::atomic<uintptr_t> begin = 0;  // 0: the place is free
  std::atomic<uintptr_t> end = 0;
  std::array<char, 512> path{};  // long ones without their beginning
};

constexpr size_t kMost = 1024;
std::array<Mapping, kMost> mappings;
std::mutex writers;
static_assert(std::atomic<uintptr_t>::is_always_lock_free,
              "a signal handler may not wait for a lock");

/// Only what is safe in a signal handler.
void Say(const char* text) {
  size_t left = std::strlen(text);
  while (left > 0) {
    const ssize_t written = write(STDERR_FILENO, text, left);
    if (written <= 0) return;
    text += written;
    left -= static_cast<size_t>(written);
  }
}

void OnBusError(int signal, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= mapping.end) continue;
    constexpr int kExitError = 1;
    Say("\ndecant: ");
    Say(mapping.path.data());
    Say(": cannot be read any more: it was cut short while it was in use, or its disk fails; "
        "replace model files by rename\n");
    _exit(kExitError);
  }
  // Not ours: the same access again ends the process as it would have.
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void Install() {
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void GuardMapping(std::span<const std::byte> bytes, std::string_view path) {
  static std::once_flag installed;
  std::call_once(installed, Install);
  const std::lock_guard lock(writers);
  for (Mapping& mapping : mappings) {
    if (mapping.begin != 0) continue;
    const size_t most = mapping.path.size() - 1;
    const std::string_view shown = path.substr(path.size() - std::min(path.size(), most));
    *std::ranges::copy(shown, mapping.path.begin()).out = '\0';
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    mapping.end = begin + bytes.size();
    mapping.begin.store(begin, std::memory_order_release);
    return;
  }
}

void ForgetMapping(std::span<const std::byte> bytes) {
  const std::lock_guard lock(writers);
  for (Mapping& mapping : mappings) {
    if (mapping.begin == reinterpret_cast<uintptr_t>(bytes.data())) {
      mapping.begin = 0;
      return;
    }
  }
}

}  // namespace decant
