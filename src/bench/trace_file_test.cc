#include "bench/trace_file.h"

#include <gtest/gtest.h>

#include <string>

namespace decant {
namespace {

constexpr std::string_view kHeader = "arrival_s,prompt_tokens,output_tokens\n";

TEST(TraceFileTest, ReadsRealTraffic) {
  const std::filesystem::path path = DECANT_TEST_DATA "/traces/azure-2023-conv-400.csv";
  const Expected<std::vector<TraceRequest>> trace = ReadTrace(path);
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  ASSERT_EQ(trace->size(), 400U);
  EXPECT_EQ(trace->front(), (TraceRequest{0, 374, 44}));
  EXPECT_EQ(trace->back(), (TraceRequest{106.330, 1314, 200}));
}

TEST(TraceFileTest, ReadsEveryFormOfTheSameLines) {
  const std::vector<TraceRequest> expected = {{0.5, 12, 3}, {0.5, 7, 1}};
  for (const std::string_view text :
       {"arrival_s,prompt_tokens,output_tokens\n0.5,12,3\n0.5,7,1\n",
        "arrival_s,prompt_tokens,output_tokens\r\n0.5,12,3\r\n0.5,7,1\r\n",
        "arrival_s,prompt_tokens,output_tokens\n0.5,12,3\n0.5,7,1",
        "\xEF\xBB\xBF\"arrival_s\",prompt_tokens,\"output_tokens\"\r\n\"0.5\",12,\"3\"\r\n5e-1,7,"
        "1\r",
        "output_tokens , prompt_tokens, arrival_s\n3, 12, 0.5\n\n1,7,0.5\n \n",
        "id,output_tokens,what,arrival_s,prompt_tokens,rest\n"
        "1,3,\"a \"\"quoted\"\", text\nof two lines\",0.5,12,\n2,1,,0.5,7\n"}) {
    const Expected<std::vector<TraceRequest>> trace = ParseTrace(text);
    ASSERT_TRUE(trace.ok()) << trace.status().ToString() << " in " << text;
    EXPECT_EQ(*trace, expected) << text;
  }
}

std::string Refusal(std::string_view text) {
  const Expected<std::vector<TraceRequest>> trace = ParseTrace(text);
  return trace.ok() ? "accepted" : trace.status().message();
}

TEST(TraceFileTest, SaysWhatIsWrongWithTheFile) {
  EXPECT_EQ(Refusal(""), "it is empty");
  EXPECT_EQ(Refusal("\xEF\xBB\xBF"), "it is empty");
  EXPECT_EQ(Refusal(kHeader), "it has no requests");
  EXPECT_EQ(Refusal("arrival_s,output_tokens\n1,2\n"), "line 1: no column prompt_tokens");
  EXPECT_EQ(Refusal("\n1,2,3\n"), "line 1: no column arrival_s");
  EXPECT_EQ(Refusal("arrival_s,prompt_tokens,output_tokens,arrival_s\n1,2,3,4\n"),
            "line 1: two columns arrival_s");
  EXPECT_EQ(ReadTrace("no-such-file.csv").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadTrace(DECANT_TEST_DATA).status().code(), StatusCode::kNotFound);
}

TEST(TraceFileTest, NamesTheLineThatIsWrong) {
  const auto refusal = [](std::string_view line) {
    return Refusal(std::string(kHeader) + "1,2,3\n" + std::string(line));
  };
  for (const std::string_view arrival :
       {"x", "", "-1", "nan", "inf", "-inf", "1e400", "2e9", "1.5s", "0x10", "1 2"}) {
    EXPECT_EQ(refusal(std::string(arrival) + ",2,3\n"),
              "line 3: arrival_s is '" + std::string(arrival) + "'; allowed: 0 to 1000000000");
  }
  for (const std::string_view tokens :
       {"x", "", "0", "-4", "1.0", "1e3", "nan", "1073741825", "99999999999999999999"}) {
    const std::string said = "_tokens is '" + std::string(tokens) + "'; allowed: 1 to 1073741824";
    EXPECT_EQ(refusal("1," + std::string(tokens) + ",3"), "line 3: prompt" + said);
    EXPECT_EQ(refusal("1,2," + std::string(tokens)), "line 3: output" + said);
  }
  EXPECT_EQ(refusal("1,2\n"), "line 3: 2 cells; the named columns need 3");
  EXPECT_EQ(refusal("0.9,2,3\n"),
            "line 3: the request at 0.9 s stands behind one at 1 s; sort them by arrival_s");
  EXPECT_EQ(refusal("1,\"2,3\n4,5,6\n"), "line 3: a quote that does not end");
  EXPECT_EQ(refusal("1,\"2\"x,3\n"), "line 3: text behind a closing quote");
  EXPECT_EQ(refusal("1,2\",3\n"), "line 3: a quote within a cell that does not begin with it");
  EXPECT_EQ(refusal("1,2,3,\"two\nlines\"\n1,-2,3\n"),
            "line 5: prompt_tokens is '-2'; allowed: 1 to 1073741824");
  const std::string null("1,2,\0003\n", 7);
  EXPECT_NE(refusal(null).find("line 3: output_tokens"), std::string::npos);
}

}  // namespace
}  // namespace decant
