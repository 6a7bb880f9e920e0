#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <new>

#include "engine/packing_runner.h"
#include "engine/test_engine.h"

namespace {

/// Calls of operator new by this thread while it counts.
thread_local bool counts = false;
thread_local int64_t allocations = 0;

void* Allocate(std::size_t bytes) {
  if (counts) ++allocations;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The program's own, in place of the library's.
void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }

namespace decant {
namespace {

/// What the loop's thread allocates in a hundred steps of 256 rows that all generate: planning,
/// packing, draws, commit, text and sinks together.
int64_t CountAllocations(const SamplingParams& sampling) {
  constexpr int32_t kRows = 256;
  constexpr int32_t kFirst = 50;
  constexpr int32_t kLast = 150;
  std::atomic<int64_t> counted = -1;
  std::promise<void> all_submitted;
  const auto engine = MakePackingEngine(kRows, 2048, MakeTestTokenizer());
  for (int32_t i = 0; i < kRows; ++i) {
    GenerateRequest request{.prompt = std::vector<Token>(20 + i % 50, 1), .max_new_tokens = 200};
    request.sampling = sampling;
    request.ignore_end_of_text = true;
    request.sink = [&counted, &all_submitted, i](const StreamUpdate& update) {
      if (i != 0) return;
      // Holds the loop: a request that came later would be taken in while allocations count.
      if (update.generated_tokens == 1) all_submitted.get_future().wait();
      if (update.generated_tokens == kFirst) {
        allocations = 0;
        counts = true;
      } else if (update.generated_tokens == kLast) {
        counts = false;
        counted = allocations;
      }
    };
    EXPECT_TRUE(engine->Submit(std::move(request)).ok());
  }
  all_submitted.set_value();
  engine->Drain();
  return counted;
}

TEST(HostStepTest, AllocatesNothingInDecodeSteps) {
  counts = true;
  allocations = 0;
  ::operator delete(::operator new(1));  // which no compiler leaves out
  counts = false;
  ASSERT_EQ(allocations, 1) << "the counter counts";
  EXPECT_EQ(CountAllocations({}), 0) << "greedy";
  EXPECT_EQ(
      CountAllocations(
          {.temperature = 0.8F, .top_k = 40, .top_p = 0.9F, .seed = 7, .repetition_penalty = 1.1F}),
      0)
      << "sampled";
}

}  // namespace
}  // namespace decant
