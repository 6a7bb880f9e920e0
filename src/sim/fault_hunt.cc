#include "sim/fault_hunt.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <mutex>
#include <thread>

#include "base/interrupt.h"
#include "sim/shrink_history.h"

namespace decant {
namespace {

constexpr int64_t kBlock = 64;  // Histories that a thread takes at once.

/// Of the history that this thread runs: for a signal handler, which nothing can be passed to.
thread_local volatile uint64_t running_seed = 0;

void WriteSeed(int /*signal*/) {
  // The handler may call nothing that allocates or locks.
  std::array<char, 20> digits{};
  size_t first = digits.size();
  uint64_t left = running_seed;
  do {
    digits[--first] = static_cast<char>('0' + left % 10);
    left /= 10;
  } while (left > 0);
  constexpr std::string_view kText = "while running the history of --seed ";
  // Nothing is left to do when writing fails.
  if (write(STDERR_FILENO, kText.data(), kText.size()) < 0) return;
  if (write(STDERR_FILENO, &digits[first], digits.size() - first) < 0) return;
  if (write(STDERR_FILENO, "\n", 1) < 0) return;
}

/// A history that broke a promise, before it is shrunk.
struct Failure {
  uint64_t seed;
  Breach breach;
};

class Hunt {
 public:
  Hunt(const HuntOptions& options, const SubjectFactory& make_subject,
       const std::function<void(int64_t)>& advance)
      : options_(options), make_subject_(make_subject), advance_(advance) {}

  HuntResult Run() {
    std::vector<std::thread> threads;
    for (int32_t i = 1; i < options_.threads; ++i) threads.emplace_back([this] { Work(); });
    Work();
    for (std::thread& thread : threads) thread.join();
    std::ranges::sort(failures_, {}, &Failure::seed);
    result_.failed = static_cast<int64_t>(failures_.size());
    for (const Failure& failure : failures_) {
      if (result_.faults.size() == options_.most_shrunk) break;
      const FaultHistory history = DrawHistory(failure.seed);
      running_seed = failure.seed;
      result_.faults.push_back(
          {.seed = failure.seed,
           .breach = failure.breach,
           .events = history.events.size(),
           .shrunk = ShrinkHistory(history, failure.breach.promise, make_subject_)});
    }
    return std::move(result_);
  }

 private:
  void Work() {
    while (!InterruptRequested()) {
      const int64_t first = next_.fetch_add(kBlock);
      const int64_t end = std::min(first + kBlock, options_.histories);
      if (first >= end) return;
      HistoryCounts counts;
      std::vector<Failure> failures;
      for (int64_t i = first; i < end; ++i) {
        const uint64_t seed = options_.first_seed + static_cast<uint64_t>(i);
        running_seed = seed;
        const HistoryOutcome outcome = RunHistory(DrawHistory(seed), make_subject_);
        counts += outcome.counts;
        if (outcome.breach) failures.push_back({.seed = seed, .breach = *outcome.breach});
      }
      const std::lock_guard lock(mutex_);
      result_.histories += end - first;
      result_.counts += counts;
      failures_.insert(failures_.end(), failures.begin(), failures.end());
      advance_(end - first);
    }
  }

  const HuntOptions& options_;
  const SubjectFactory& make_subject_;
  const std::function<void(int64_t)>& advance_;
  std::atomic<int64_t> next_ = 0;
  std::mutex mutex_;  ///< Guards what follows while threads run.
  HuntResult result_;
  std::vector<Failure> failures_;
};

}  // namespace

HuntResult HuntFaults(const HuntOptions& options, const SubjectFactory& make_subject,
                      const std::function<void(int64_t)>& advance) {
  return Hunt(options, make_subject, advance).Run();
}

void NameSeedOnAbort() { static_cast<void>(std::signal(SIGABRT, WriteSeed)); }

}  // namespace decant
