#include "weights/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "base/testing/temporary_folder.h"

namespace decant {
namespace {

class MappedFileTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, std::string_view text) const {
    const std::string path = folder_ / name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  static std::string_view Text(const MappedFile& file) {
    return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(MappedFileTest, ShowsTheBytesAndKeepsThemWhenMoved) {
  MappedFile first = MappedFile::Open(Write("a", "hello")).value();
  MappedFile second = MappedFile::Open(Write("b", "other")).value();
  const std::byte* address = first.bytes().data();
  EXPECT_EQ(Text(first), "hello");

  second = std::move(first);
  const MappedFile third = std::move(second);
  EXPECT_EQ(third.bytes().data(), address);
  EXPECT_EQ(Text(third), "hello");
  EXPECT_EQ(third.path(), (folder_ / "a").string());
  third.Prefetch();
}

TEST_F(MappedFileTest, AnEmptyFileIsAnEmptySpan) {
  const Expected<MappedFile> file = MappedFile::Open(Write("empty", ""));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  EXPECT_EQ(file->size(), 0u);
  file->Prefetch();
}

TEST_F(MappedFileTest, NamesWhatCannotBeMapped) {
  const std::string missing = folder_ / "missing";
  Status status = MappedFile::Open(missing).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_EQ(status.message(), missing + ": cannot open: No such file or directory");

  status = MappedFile::Open(folder_).status();
  EXPECT_EQ(status.message(), folder_.string() + ": not a regular file but a directory");

  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::Open(pipe).status().message(), pipe + ": not a regular file");
}

TEST_F(MappedFileTest, AFileThatIsCutShortIsToldOfAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto read_last = [](const MappedFile& file) {
    return std::to_integer<int>(*static_cast<const volatile std::byte*>(&file.bytes().back()));
  };
  EXPECT_EXIT(
      {
        const std::string path = Write("cut", std::string(100'000, 'x'));
        const MappedFile other = MappedFile::Open(Write("whole", "whole")).value();
        MappedFile file = MappedFile::Open(path).value();
        const MappedFile moved = std::move(file);
        std::filesystem::resize_file(path, 10);
        std::filesystem::remove_all(folder_);  // this process's own, and it ends here
        std::_Exit(read_last(moved));
      },
      ::testing::ExitedWithCode(1), "/cut: cannot be read any more: it was cut short");
  // Memory that is no model file's.
  EXPECT_EXIT(
      {
        const std::string path = Write("unmapped", std::string(100'000, 'x'));
        const std::byte* last = nullptr;
        {
          const MappedFile file = MappedFile::Open(path).value();
          last = &file.bytes().back();
        }
        const int again = open(path.c_str(), O_RDONLY);
        void* const page = const_cast<std::byte*>(last) - 99'999;
        if (mmap(page, 100'000, PROT_READ, MAP_PRIVATE | MAP_FIXED, again, 0) != page)
          std::_Exit(9);
        std::filesystem::resize_file(path, 10);
        std::filesystem::remove_all(folder_);
        std::_Exit(std::to_integer<int>(*static_cast<const volatile std::byte*>(last)));
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace decant
