#include "base/progress.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace decant {
namespace {

/// A FILE whose text can be read back.
class MemoryFile {
 public:
  MemoryFile() : file_(open_memstream(&data_, &size_)) {}
  ~MemoryFile() {
    std::fclose(file_);
    std::free(data_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::FILE* get() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {data_, size_};
  }

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  std::FILE* file_;
};

/// What the clock of a test says; it stands still but for what the test adds.
double now = 0;
double Now() { return now; }

TEST(ProgressTest, FormatsCountsBytesAndTimeLeft) {
  EXPECT_EQ(FormatProgress("bench", 25, 100, "requests", 10, ""),
            "bench  25% (25 of 100 requests, 10 s, 30 s left)");
  EXPECT_EQ(FormatProgress("load", 3 << 20, 4 << 20, "bytes", 2, "Q4_1"),
            "load  75% (3 of 4 MiB, 2 s, 1 s left) Q4_1");
  EXPECT_EQ(FormatProgress("bench", 0, 100, "requests", 3, ""),
            "bench   0% (0 of 100 requests, 3 s)");
  EXPECT_EQ(FormatProgress("bench", 120, 100, "requests", 3, ""),
            "bench 100% (120 of 100 requests, 3 s)");
}

TEST(ProgressTest, DrawsALiveLineAndErasesIt) {
  MemoryFile out;
  {
    Progress progress("work", 10, "pieces", {.out = out.get(), .live = true, .clock = Now});
    progress.SetNote("going well");
    progress.Advance(4);
    EXPECT_EQ(out.text(), "") << "quick work shows nothing";
    now += 3;
    progress.Advance(1);
    EXPECT_EQ(out.text(), "\r\x1b[Kwork  50% (5 of 10 pieces, 3 s, 3 s left) going well");
  }
  EXPECT_TRUE(out.text().ends_with("\r\x1b[K"));
}

TEST(ProgressTest, CountsFromManyThreads) {
  MemoryFile out;
  Progress progress("work", 4001, "pieces", {.out = out.get(), .live = true, .clock = Now});
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) progress.Advance(1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  now += 3;
  progress.Advance(1);
  EXPECT_NE(out.text().find("(4001 of 4001 pieces"), std::string::npos) << out.text();
}

}  // namespace
}  // namespace decant
