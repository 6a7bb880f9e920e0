#include "server/request_parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace decant {
namespace {

constexpr size_t kHeaderLimit = 1024;
constexpr size_t kBodyLimit = 100;

/// Feeds `bytes` in pieces of `piece` as a connection would, and returns the parser; `left`: what
/// belongs to the next request.
std::unique_ptr<RequestParser> ParseInPieces(std::string_view bytes, size_t piece,
                                             std::string* left = nullptr) {
  auto parser = std::make_unique<RequestParser>(kHeaderLimit, kBodyLimit);
  std::string input;
  while (!parser->done() && !parser->error() && !bytes.empty()) {
    input += bytes.substr(0, piece);
    bytes.remove_prefix(std::min(piece, bytes.size()));
    input.erase(0, parser->Parse(input));
  }
  if (left != nullptr) *left = input + std::string(bytes);
  return parser;
}

TEST(RequestParser, ReadsARequestHoweverItIsCut) {
  const std::string bytes =
      "\r\nPOST /v1/completions?x=1 HTTP/1.1\r\nHost: h\r\nX-Two:  spaced \r\n"
      "Transfer-Encoding: Chunked\r\n\r\n"
      "4;name=\"value\"\r\nWiki\r\n6\r\npedia!\r\n0\r\nTrailer: t\r\n\r\nGET";
  for (const size_t piece : {1UL, 2UL, 3UL, 7UL, 50UL, 1000UL}) {
    std::string left;
    const auto parser = ParseInPieces(bytes, piece, &left);
    ASSERT_TRUE(parser->done()) << piece;
    EXPECT_EQ(parser->request().method, "POST");
    EXPECT_EQ(parser->request().path, "/v1/completions");
    EXPECT_EQ(parser->request().query, "x=1");
    EXPECT_EQ(parser->request().Header("x-TWO"), "spaced");
    EXPECT_EQ(parser->request().body, "Wikipedia!");
    EXPECT_FALSE(parser->request().Header("Trailer"));
    EXPECT_TRUE(parser->keep_alive());
    EXPECT_EQ(left, "GET");
  }
}

/// Beast asserts that a last chunk it comes back to has five bytes. With no chunk before it, it may
/// have three or four.
TEST(RequestParser, ReadsTheEndOfAnEmptyChunkedBody) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const char* end : {"0\r\n\r\n", "00\r\n\r\n", "0;a\r\n\r\n", "0;a=\"b\"\r\nX: y\r\n\r\n"}) {
    for (const size_t piece : {1UL, 2UL, 3UL, head.size() + 1, head.size() + 3, 1000UL}) {
      std::string left;
      const auto parser = ParseInPieces(head + end + "GET", piece, &left);
      ASSERT_TRUE(parser->done()) << end << " in pieces of " << piece;
      EXPECT_EQ(parser->request().body, "");
      EXPECT_EQ(left, "GET") << end << " in pieces of " << piece;
    }
  }
  for (const char* end :
       {"0x\r\n\r\n", "0 \r\n\r\n", "0\r\r\n\r\n", "0\r\n\rX\r\n\r\n", "0\r\nX\r\n\r\n",
        "0\r\n: y\r\n\r\n", "0\r\nX: \n\r\n\r\n", "0;\r\n\r\n", "0;a=\r\n\r\n"}) {
    for (const size_t piece : {1UL, 2UL, 3UL, head.size() + 1, head.size() + 3, 1000UL}) {
      const auto parser = ParseInPieces(head + end, piece);
      ASSERT_TRUE(parser->error()) << end << " in pieces of " << piece;
      EXPECT_EQ(parser->error()->status, 400) << end << " in pieces of " << piece;
    }
  }
}

/// A client that waits for "100 Continue" has the same bytes looked at twice.
TEST(RequestParser, MayBeOfferedTheSameBytesAgain) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::vector<std::pair<std::string, std::string>> cases = {{"0\r\n\r\n", ""},
                                                                  {"1\r\n0\r\n0\r\n\r\n", "0"}};
  for (const auto& [chunks, body] : cases) {
    RequestParser parser(kHeaderLimit, kBodyLimit);
    std::string input;
    for (const char byte : head + chunks) {
      input += byte;
      input.erase(0, parser.Parse(input));
      if (!parser.done() && !input.empty()) input.erase(0, parser.Parse(input));
      ASSERT_FALSE(parser.error()) << chunks;
    }
    EXPECT_TRUE(parser.done()) << chunks;
    EXPECT_EQ(parser.request().body, body);
  }
}

TEST(RequestParser, TakesTargetsAndVersionsAsTheyAreMeant) {
  EXPECT_EQ(ParseInPieces("GET http://h:1/a?b HTTP/1.1\r\nHost: h\r\n\r\n", 9)->request().path,
            "/a");
  EXPECT_EQ(ParseInPieces("GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", 9)->request().path, "/");
  EXPECT_EQ(ParseInPieces("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", 9)->request().path, "*");
  EXPECT_FALSE(ParseInPieces("GET / HTTP/1.0\r\n\r\n", 9)->keep_alive());
  EXPECT_TRUE(ParseInPieces("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 9)->keep_alive());
  EXPECT_FALSE(
      ParseInPieces("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 9)->keep_alive());
}

TEST(RequestParser, RefusesHostileFraming) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::vector<std::pair<std::string, int>> cases = {
      {post + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
      {post + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
      {post + "Content-Length: 3, 3\r\n\r\nabc", 400},
      {post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
      {"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {post + "Content-Length: -1\r\n\r\n", 400},
      {post + "Content-Length: +1\r\n\r\na", 400},
      {post + "Content-Length: 0x1\r\n\r\na", 400},
      {post + "Content-Length: one\r\n\r\n", 400},
      {post + "Content-Length:\r\n\r\n", 400},
      {post + "Content-Length: 18446744073709551617\r\n\r\n", 400},
      {post + "Content-Length: 101\r\n\r\n", 413},
      {post + "Content-Length : 3\r\n\r\nabc", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n65\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff0\r\n", 413},
      {post + "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n", 0},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;" + std::string(20000, 'x'), 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;a=\"\n\"\r\nb\r\n0\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0;a=\"\\\n\"\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;a=\"\x7f\"\r\nb\r\n0\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: a\n\n", 400},
      {"GET / HTTP/1.1\rHost: a\r\r", 400},
      {"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", 400},
      {std::string("GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29), 400},
      {std::string("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n", 28), 400},
      {"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET /#part HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET models HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405},
      {"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 405},
      {"G(T / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400},
      {"GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400},
      {"GET /\r\nHost: a\r\n\r\n", 400},
      {"\x16\x03\x01\x02\x01\x01\xfc\x03\x03 a TLS hello", 400},
      {"POST / HTTP/1.1\r\nHost: a\r\nExpect: more\r\n\r\n", 417},
      {"GET / HTTP/1.1\r\nHost: " + std::string(2000, 'h') + "\r\n\r\n", 431},
      {"GET /" + std::string(2000, 'p') + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
  };
  for (const auto& [bytes, status] : cases) {
    for (const size_t piece : {1UL, 10UL, 100000UL}) {
      const auto parser = ParseInPieces(bytes, piece);
      EXPECT_FALSE(parser->done()) << bytes.substr(0, 200);
      const int found = parser->error() ? parser->error()->status : 0;
      // What comes in pieces may be looked at only once a line or the head is whole.
      const bool waits = piece < bytes.size() && found == 0;
      EXPECT_TRUE(found == status || waits)
          << found << " for " << bytes.substr(0, 200) << " in pieces of " << piece;
    }
  }
}

TEST(RequestParser, CountsHeadersNoMatterHowTheyCome) {
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 100; ++i) many += "X-" + std::to_string(i) + ": 0123456789\r\n";
  for (const size_t piece : {1UL, 100UL, 500UL, 100000UL}) {
    const auto parser = ParseInPieces(many + "\r\n", piece);
    ASSERT_TRUE(parser->error()) << piece;
    EXPECT_EQ(parser->error()->status, 431) << piece;
  }
}

TEST(RequestParser, SurvivesMutatedRequests) {
  const std::vector<std::string> seeds = {
      "GET /v1/models?a=b HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-Fold: a\r\n b\r\n\r\n",
      "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\nExpect: "
      "100-continue\r\n\r\n{\"a\":\"b\"}  G",
      "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
      "chunked\r\n\r\n5;x=\"y\"\r\nabcde\r\n1\r\nz\r\n"
      "0\r\nA: b\r\n\r\n",
  };
  const std::string spice = std::string("\r\n\0 :;,\"%0f\xff\t-", 14);
  std::mt19937 random(1);
  const auto below = [&](size_t limit) { return static_cast<size_t>(random() % limit); };
  int done = 0;
  int refused = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = seeds[below(seeds.size())];
    for (size_t change = below(4); change > 0; --change) {
      const size_t at = below(bytes.size());
      switch (below(4)) {
        case 0:
          bytes[at] = spice[below(spice.size())];
          break;
        case 1:
          bytes.erase(at, 1 + below(3));
          break;
        case 2:
          bytes.insert(at, 1 + below(3), spice[below(spice.size())]);
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), below(20)));
      }
      if (bytes.empty()) bytes = "G";
    }
    std::string left;
    const auto parser = ParseInPieces(bytes, 1 + below(bytes.size()), &left);
    ASSERT_LE(left.size(), bytes.size());
    ASSERT_LE(parser->request().body.size(), kBodyLimit);
    done += parser->done() ? 1 : 0;
    if (!parser->error()) continue;
    ++refused;
    ASSERT_GE(parser->error()->status, 400) << bytes;
    ASSERT_LT(parser->error()->status, 500) << bytes;
    ASSERT_FALSE(parser->done());
  }
  EXPECT_GT(done, 5000);
  EXPECT_GT(refused, 5000);
}

}  // namespace
}  // namespace decant
