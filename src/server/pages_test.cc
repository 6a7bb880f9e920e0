#include "server/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/completion.h"
#include "engine/test_engine.h"
#include "server/json_input.h"

namespace decant {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string Header(const HttpResponse& response, const std::string& name) {
  for (const HttpHeader& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

TEST(LivePageTest, OnlyItsOwnScriptMayRun) {
  RandomIds ids;
  const HttpResponse page = LivePage(ids);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  const std::string policy = Header(page, "Content-Security-Policy");
  const size_t begin = policy.find("script-src 'nonce-") + 18;
  const std::string nonce = policy.substr(begin, policy.find('\'', begin) - begin);
  ASSERT_EQ(nonce.size(), 32) << policy;
  EXPECT_THAT(policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.body, HasSubstr("<script nonce=\"" + nonce + "\">"));
  EXPECT_THAT(page.body, HasSubstr("<style nonce=\"" + nonce + "\">"));
  EXPECT_THAT(page.body, Not(HasSubstr("@NONCE@")));
  EXPECT_NE(LivePage(ids).body, page.body) << "a nonce serves once";
}

TEST(LivePageTest, NeedsNothingElseAndMakesNoHtmlOfText) {
  RandomIds ids;
  const std::string body = LivePage(ids).body;
  for (const char* bad : {"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(",
                          " src=", "@import", "url(", " style=", " onclick="}) {
    EXPECT_THAT(body, Not(HasSubstr(bad)));
  }
  const size_t svg_namespace = body.find("http://www.w3.org/2000/svg");
  EXPECT_EQ(body.find("http"), svg_namespace) << "an address outside";
  EXPECT_EQ(body.find("http", svg_namespace + 1), std::string::npos) << "an address outside";
}

class StatusPageTest : public ::testing::Test {
 protected:
  Json Read(const StatusOptions& options) {
    const HttpResponse response = StatusPage(options, *engine_).Page();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(Header(response, "Cache-Control"), "no-store");
    return ParseJson(response.body).value();
  }

  TestEngine engine_{{.num_pages = 24, .page_size = 4, .max_batch = 4, .chunk_tokens = 8}};
};

TEST_F(StatusPageTest, TellsOfAnIdleEngine) {
  const Json status = Read({.model_name = "m\"\xff", .max_model_len = 500, .page_size = 4});
  EXPECT_EQ(status["model"], "m\"\xEF\xBF\xBD");
  EXPECT_EQ(status["health"], "ok");
  EXPECT_EQ(status["requests"]["running"], 0);
  EXPECT_EQ(status["pages"]["total"], 24);
  EXPECT_EQ(status["chunk_tokens"], 8);
  EXPECT_TRUE(status["rows"].empty());
  EXPECT_TRUE(status["steps"]["pure_decode"].is_null());
  EXPECT_TRUE(status["steps"]["loaded"].is_null());
  EXPECT_TRUE(status["steps"]["recent"]["ms"].empty());
}

TEST_F(StatusPageTest, TellsOfRowsWhileTheyRunAndOfStepsThen) {
  const StatusOptions options{
      .max_batch = 4,
      .page_size = 4,
      .rates = FloorRates{.bytes_per_second = 1e9, .operations_per_second = 1e9}};
  Json running;
  GenerateRequest request{.prompt = std::vector<Token>(20, 1), .max_new_tokens = 10};
  request.ignore_end_of_text = true;
  request.sink = [&](const StreamUpdate& update) {
    if (update.generated_tokens == 5) running = Read(options);
  };
  const RequestId id = engine_->Submit(std::move(request)).value();
  engine_->Drain();
  engine_->Stop();
  EXPECT_EQ(running["requests"]["running"], 1);
  EXPECT_EQ(running["pages"]["in_use"], 8);
  ASSERT_EQ(running["rows"].size(), 1);
  EXPECT_EQ(running["rows"][0], (Json{{"row", 0},
                                      {"request", id},
                                      {"sample", 0},
                                      {"prompt_tokens", 20},
                                      {"prompt_done", 20},
                                      {"generated_tokens", 4},
                                      {"budget", 10}}));
  const Json status = Read(options);
  EXPECT_EQ(status["health"], "the engine is draining");
  EXPECT_EQ(status["requests"]["finished"]["budget"], 1);
  EXPECT_EQ(status["tokens"], (Json{{"prompt", 20}, {"generated", 10}}));
  const Json& steps = status["steps"];
  EXPECT_EQ(steps["loaded_total"], 3);
  EXPECT_EQ(steps["loaded"]["steps"], 3);
  EXPECT_EQ(steps["recent"]["loaded"][2], true);
  EXPECT_EQ(steps["recent"]["loaded"][3], false);
  const size_t total = 3 + steps["pure_decode_total"].get<size_t>();
  EXPECT_EQ(steps["recent"]["ms"].size(), total);
  EXPECT_EQ(steps["recent"]["floor_ms"].size(), total);
  EXPECT_LE(steps["loaded"]["median_ms"], steps["loaded"]["p99_ms"]);
  EXPECT_TRUE(steps["loaded"].contains("floor_ms"));
  EXPECT_TRUE(steps["loaded"].contains("times_floor"));
  EXPECT_FALSE(Read({})["steps"]["loaded"].contains("floor_ms")) << "rates are not known";
}

}  // namespace
}  // namespace decant
