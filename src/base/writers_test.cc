#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <string>

#include "base/csv_writer.h"
#include "base/json.h"
#include "base/jsonl_writer.h"
#include "base/output_file.h"
#include "base/testing/temporary_folder.h"

namespace decant {
namespace {

namespace fs = std::filesystem;

class WritersTest : public testing::Test {
 protected:
  static std::string Read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(WritersTest, ReplacingShowsNothingUntilClose) {
  const fs::path path = folder_ / "new" / "rows.csv";
  {
    Expected<OutputFile> file = OutputFile::Open(path, OutputMode::kReplace);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    ASSERT_TRUE(file->WriteLine("first").ok());
    EXPECT_FALSE(fs::exists(path));
    ASSERT_TRUE(file->Close().ok());
    ASSERT_TRUE(file->Close().ok());
    EXPECT_EQ(Read(path), "first\n");
  }
  {
    Expected<OutputFile> abandoned = OutputFile::Open(path, OutputMode::kReplace);
    ASSERT_TRUE(abandoned.ok());
    ASSERT_TRUE(abandoned->WriteLine("second").ok());
    std::optional<OutputFile> moved(std::move(*abandoned));
    ASSERT_TRUE(moved->WriteLine("third").ok());
  }
  EXPECT_EQ(Read(path), "first\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), {}), 1)
      << "the abandoned part is gone";
}

TEST_F(WritersTest, AppendingKeepsWhatIsThere) {
  const fs::path path = folder_ / "gates.jsonl";
  for (int i = 0; i < 2; ++i) {
    Expected<JsonlWriter> writer = JsonlWriter::Open(path, OutputMode::kAppend);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Write(JsonObject().Add("run", i)).ok());
    EXPECT_EQ(Read(path), i == 0 ? "{\"run\": 0}\n" : "{\"run\": 0}\n{\"run\": 1}\n");
  }
}

TEST_F(WritersTest, AFileThatCannotBeMadeIsAnError) {
  std::ofstream(folder_ / "file") << "x";
  const Expected<OutputFile> file =
      OutputFile::Open(folder_ / "file" / "below.csv", OutputMode::kReplace);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find("file"), std::string::npos);
}

/// While it lives, no file of this process may grow past `bytes`, as on a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST_F(WritersTest, AFullDiskIsAnErrorAndLeavesNothingHalfWritten) {
  const fs::path path = folder_ / "rows.csv";
  std::ofstream(path) << "as it was\n";
  const fs::path started = folder_ / "started.jsonl";
  const fs::path fresh = folder_ / "fresh.jsonl";
  const std::string line(60, 'x');
  {
    const FileSizeLimit limit(100);
    OutputFile replaced = OutputFile::Open(path, OutputMode::kReplace).value();
    EXPECT_TRUE(replaced.WriteLine(line).ok());
    const Status status = replaced.WriteLine(line);
    EXPECT_NE(status.message().find("rows.csv.part: File too large"), std::string::npos)
        << status.ToString();

    OutputFile appended = OutputFile::Open(started, OutputMode::kAppend).value();
    EXPECT_TRUE(appended.WriteLine(line).ok());
    EXPECT_FALSE(appended.WriteLine(line).ok());
    EXPECT_FALSE(appended.WriteLine(line).ok());
    EXPECT_TRUE(appended.WriteLine("short").ok());

    OutputFile too_long = OutputFile::Open(fresh, OutputMode::kAppend).value();
    EXPECT_FALSE(too_long.WriteLine(std::string(200, 'x')).ok());
  }
  EXPECT_EQ(Read(path), "as it was\n");
  EXPECT_FALSE(fs::exists(folder_ / "rows.csv.part"));
  EXPECT_EQ(Read(started), line + "\nshort\n");
  EXPECT_FALSE(fs::exists(fresh));
  // The device that is always full.
  OutputFile full = OutputFile::Open("/dev/full", OutputMode::kAppend).value();
  EXPECT_NE(full.WriteLine("x").message().find("/dev/full: No space left"), std::string::npos);
}

TEST_F(WritersTest, CsvQuotesWhatNeedsIt) {
  const fs::path path = folder_ / "rows.csv";
  Expected<CsvWriter> writer = CsvWriter::Open(path, {"name", "a,b", "x"}, OutputMode::kReplace);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->WriteRow({"plain", 3, 0.1}).ok());
  ASSERT_TRUE(writer->WriteRow({"say \"hi\", now", "two\nlines", std::nan("")}).ok());
  ASSERT_TRUE(writer->WriteRow({"", std::numeric_limits<int64_t>::min(), 1e300}).ok());
  ASSERT_TRUE(writer->Close().ok());
  EXPECT_EQ(Read(path),
            "name,\"a,b\",x\n"
            "plain,3,0.1\n"
            "\"say \"\"hi\"\", now\",\"two\nlines\",\n"
            ",-9223372036854775808,1e+300\n");
}

TEST_F(WritersTest, CsvAppendsUnderTheSameColumnsOnly) {
  const fs::path path = folder_ / "rows.csv";
  for (int i = 0; i < 2; ++i) {
    Expected<CsvWriter> writer = CsvWriter::Open(path, {"a", "b"}, OutputMode::kAppend);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->WriteRow({i, true}).ok());
  }
  EXPECT_EQ(Read(path), "a,b\n0,1\n1,1\n");
  EXPECT_FALSE(CsvWriter::Open(path, {"a", "c"}, OutputMode::kAppend).ok());
  EXPECT_EQ(Read(path), "a,b\n0,1\n1,1\n");
}

TEST(JsonTest, QuotesHostileText) {
  EXPECT_EQ(JsonQuote("a\"\\\n\r\t\x01\x7f/"), R"("a\"\\\n\r\t\u0001\u007f/")");
  EXPECT_EQ(JsonQuote(std::string_view("a\0b", 3)), R"("a\u0000b")");
  EXPECT_EQ(JsonQuote("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\"h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  // Truncated, lone continuation, overlong, surrogate, above U+10FFFF.
  EXPECT_EQ(JsonQuote("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonQuote("\x80z"), "\"\xEF\xBF\xBDz\"");
  EXPECT_EQ(JsonQuote("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonQuote("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(JsonQuote("\xF4\x90\x80\x80").size(), 2 + 4 * 3U);
}

TEST(JsonTest, BuildsObjectsAndArrays) {
  JsonArray list;
  list.Add(1).Add("two").Add(2.5).Add(false).Add(JsonObject());
  const JsonObject object = JsonObject()
                                .Add("text", "x")
                                .Add("view", std::string_view("y"))
                                .Add("flag", true)
                                .Add("big", std::numeric_limits<uint64_t>::max())
                                .Add("third", 1.0 / 3.0)
                                .Add("none", std::nan(""))
                                .Add("inf", std::numeric_limits<double>::infinity())
                                .Add("list", list);
  EXPECT_EQ(object.ToString(),
            R"({"text": "x", "view": "y", "flag": true, "big": 18446744073709551615, )"
            R"("third": 0.3333333333333333, "none": null, "inf": null, )"
            R"("list": [1, "two", 2.5, false, {}]})");
  EXPECT_EQ(JsonArray().ToString(), "[]");
}

}  // namespace
}  // namespace decant
