#include "server/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/testing/test_server.h"

namespace decant {
namespace {

using std::chrono::milliseconds;

TEST(HttpServer, KeepsAConnectionForManyRequests) {
  TestServer server;
  RawClient client = server.Connect();
  for (int i = 0; i < 3; ++i) {
    client.Send(Get("/hello"));
    auto response = client.ReadResponse();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "hi");
    EXPECT_EQ(response->headers["content-type"], "text/plain");
    EXPECT_EQ(response->headers["connection"], "keep-alive");
    EXPECT_EQ(response->headers["date"].size(), 29U);
    client.Send(Post("/echo", "body " + std::to_string(i)));
    response = client.ReadResponse();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "body " + std::to_string(i));
  }
  EXPECT_EQ(server->connections_open(), 1);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  server.handlers["/slow"] = [](auto exchange) {
    std::this_thread::sleep_for(milliseconds(50));
    exchange->Respond({.body = "slow"});
  };
  RawClient client = server.Connect();
  client.Send(Post("/slow", "x") + Get("/hello") + Post("/echo", "third") + Get("/nothing"));
  for (const std::string expected : {"slow", "hi", "third", "no such page"}) {
    const auto response = client.ReadResponse();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, expected);
  }
}

TEST(HttpServer, ABodyIsAsLongAsItsLengthSays) {
  TestServer server;
  RawClient client = server.Connect();
  // What follows is the next request, and no good one.
  client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcdef\r\n\r\n");
  auto response = client.ReadResponse();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "abc");
  response = client.ReadResponse();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->status, 400);
  EXPECT_FALSE(client.ReadResponse());
}

TEST(HttpServer, AHeaderWithoutEndIsCutOff) {
  HttpServerOptions options;
  options.limits.header_bytes = 4096;
  TestServer server(options);
  for (const std::string start : {"GET / HTTP/1.1\r\nHost: h\r\nX: ", "GET /", "X"}) {
    RawClient client = server.Connect();
    client.Send(start + std::string(5000, 'x'));
    const auto response = client.ReadResponse();
    ASSERT_TRUE(response) << start;
    EXPECT_TRUE(response->status == 431 || response->status == 400) << response->status;
    EXPECT_FALSE(client.ReadResponse());
  }
}

TEST(HttpServer, ReadsChunkedBodiesAndAsksForExpectedOnes) {
  TestServer server;
  RawClient client = server.Connect();
  client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  std::this_thread::sleep_for(milliseconds(10));
  client.Send("4\r\ndefg\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse()->body, "abcdefg");
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(client.ReadResponse()->status, 100);
  client.Send("later");
  EXPECT_EQ(client.ReadResponse()->body, "later");
}

TEST(HttpServer, SpeaksTheOldVersionToThoseWhoDo) {
  TestServer server;
  RawClient client = server.Connect();
  client.Send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.ReadResponse()->headers["connection"], "close");
  EXPECT_TRUE(client.IsClosed());

  RawClient keeping = server.Connect();
  keeping.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + Get("/hello"));
  EXPECT_EQ(keeping.ReadResponse()->headers["connection"], "keep-alive");
  EXPECT_EQ(keeping.ReadResponse()->body, "hi");
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  TestServer server;
  RawClient client = server.Connect();
  client.Send("HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n" + Get("/hello"));
  const std::string head = client.ReadUntil("\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 2\r\n"), std::string::npos) << head;
  EXPECT_EQ(client.ReadResponse()->body, "hi");
  client.Close();
  EXPECT_EQ(server.records().front().method, "HEAD");
}

TEST(HttpServer, GivesEveryRequestAnId) {
  TestServer server;
  RawClient client = server.Connect();
  const auto id_of = [&](const std::string& given) {
    client.Send("GET /hello HTTP/1.1\r\nHost: h\r\nX-Request-Id: " + given + "\r\n\r\n");
    return client.ReadResponse()->headers["x-request-id"];
  };
  EXPECT_EQ(id_of("my-id.7"), "my-id.7");
  EXPECT_EQ(id_of(std::string(128, 'i')), std::string(128, 'i'));
  for (const std::string bad : {"two words", "\"quoted\"", "", "\xc3\xa4", "back\\slash"}) {
    EXPECT_TRUE(id_of(bad).starts_with("req-")) << bad;
  }
  EXPECT_TRUE(id_of(std::string(129, 'i')).starts_with("req-"));
  EXPECT_NE(id_of(""), id_of(""));
}

TEST(HttpServer, RefusesBadRequestsInTheApisShapeAndCloses) {
  HttpServerOptions options;
  options.limits.header_bytes = 2048;
  options.limits.body_bytes = 1000;
  TestServer server(options);
  const std::string large(5000, 'x');
  const std::vector<std::pair<std::string, int>> cases = {
      {"nonsense\r\n\r\n", 400},
      {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx", 400},
      {Post("/echo", large), 413},
      {"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n200\r\n" +
           std::string(512, 'x') + "\r\n200\r\n" + std::string(512, 'x') + "\r\n0\r\n\r\n",
       413},
      {"GET /" + large + " HTTP/1.1\r\nHost: h\r\n\r\n", 431},
      {"GET / HTTP/1.1\r\nHost: h\r\nX-Large: " + large, 431},
      {"BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", 405},
  };
  for (const auto& [bytes, status] : cases) {
    RawClient client = server.Connect();
    client.Send(bytes + Get("/hello"));
    auto response = client.ReadResponse();
    ASSERT_TRUE(response) << bytes.substr(0, 60);
    EXPECT_EQ(response->status, status) << bytes.substr(0, 60);
    EXPECT_EQ(response->headers["connection"], "close");
    EXPECT_NE(response->headers["x-request-id"], "");
    EXPECT_EQ(response->body.find(R"({"error": {"message": ")"), 0U) << response->body;
    EXPECT_EQ(response->headers.count("allow"), status == 405 ? 1U : 0U);
    EXPECT_FALSE(client.ReadResponse()) << "what stood behind a bad request was read as one";
  }
  EXPECT_EQ(server.records().size(), cases.size());
}

TEST(HttpServer, HoldsOnlySoMuchOfAllBodies) {
  HttpServerOptions options;
  options.limits.all_bodies_bytes = 1500;
  TestServer server(options);
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n\r\n";
  const std::string body(1000, 'x');
  RawClient first = server.Connect();
  RawClient second = server.Connect();
  first.Send(head + body);
  second.Send(head + body);
  // Whichever body is read later is too much.
  ASSERT_TRUE(Eventually([&] { return first.HasInput() || second.HasInput(); }));
  RawClient& refused = first.HasInput() ? first : second;
  RawClient& taken = first.HasInput() ? second : first;
  EXPECT_EQ(refused.ReadResponse()->status, 503);
  taken.Send("x");
  EXPECT_EQ(taken.ReadResponse()->status, 200);
  RawClient third = server.Connect();
  third.Send(head + body + "x");
  EXPECT_EQ(third.ReadResponse()->status, 200);
}

TEST(HttpServer, TellsAClientThatStopsInTheMiddleOfABody) {
  TestServer server;
  RawClient client = server.Connect();
  client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nhalf");
  client.StopSending();
  EXPECT_EQ(client.ReadResponse()->status, 400);
  RawClient whole = server.Connect();
  whole.Send(Get("/hello") + Get("/hello"));
  whole.StopSending();
  EXPECT_EQ(whole.ReadResponse()->body, "hi");
  EXPECT_EQ(whole.ReadResponse()->body, "hi");
  EXPECT_TRUE(whole.IsClosed());
}

TEST(HttpServer, WaitsOnlySoLongForARequest) {
  HttpServerOptions options;
  options.limits.idle_timeout = milliseconds(300);
  TestServer server(options);
  RawClient idle = server.Connect();
  EXPECT_TRUE(idle.IsClosed());
  // On a busy machine a connection may be closed before its request comes.
  std::optional<RawClient> after_a_request;
  ASSERT_TRUE(Eventually([&] {
    after_a_request.emplace(server.Connect());
    after_a_request->Send(Get("/hello"));
    const auto response = after_a_request->ReadResponse();
    return response && response->status == 200;
  }));
  EXPECT_TRUE(after_a_request->IsClosed());
}

TEST(HttpServer, WaitsOnlySoLongForARequestsEnd) {
  HttpServerOptions options;
  options.limits.request_timeout = milliseconds(100);
  TestServer server(options);
  for (const std::string part :
       {"G", "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx",
        "GET /hello HTTP/1.1\r\nHost"}) {
    RawClient slow = server.Connect();
    slow.Send(part);
    const auto response = slow.ReadResponse();
    ASSERT_TRUE(response) << part;
    EXPECT_EQ(response->status, 408);
  }
}

TEST(HttpServer, TurnsAwayOneConnectionTooMany) {
  HttpServerOptions options;
  options.limits.connections = 2;
  TestServer server(options);
  RawClient first = server.Connect();
  {
    RawClient second = server.Connect();
    first.Send(Get("/hello"));
    second.Send(Get("/hello"));
    EXPECT_EQ(first.ReadResponse()->status, 200);
    EXPECT_EQ(second.ReadResponse()->status, 200);
    RawClient third = server.Connect();
    const auto turned_away = third.ReadResponse();
    ASSERT_TRUE(turned_away);
    EXPECT_EQ(turned_away->status, 503);
    EXPECT_EQ(turned_away->headers.count("retry-after"), 1U);
  }
  ASSERT_TRUE(Eventually([&] { return server->connections_open() == 1; }));
  RawClient fourth = server.Connect();
  fourth.Send(Get("/hello"));
  EXPECT_EQ(fourth.ReadResponse()->status, 200);
}

TEST(HttpServer, AnswersQuicklyBesideAThousandIdleConnections) {
  TestServer server;
  std::vector<RawClient> idle;
  idle.reserve(1000);
  for (int i = 0; i < 1000; ++i) idle.push_back(server.Connect());
  RawClient client = server.Connect();
  client.Send(Get("/hello"));
  EXPECT_EQ(client.ReadResponse()->body, "hi");
  EXPECT_EQ(server->connections_open(), 1001);
  for (RawClient& one : idle) one.Send(Get("/hello"));
  for (RawClient& one : idle) ASSERT_TRUE(one.ReadResponse());
}

TEST(HttpServer, ServesGetsWhileAllWorkersAreBusy) {
  TestServer server;
  std::mutex busy;
  server.handlers["/busy"] = [&](auto exchange) {
    const std::lock_guard lock(busy);
    exchange->Respond({});
  };
  std::unique_lock hold(busy);
  std::vector<RawClient> posts;
  posts.reserve(5);
  for (int i = 0; i < 5; ++i) posts.push_back(server.Connect());
  for (RawClient& post : posts) post.Send(Post("/busy", "{}"));
  RawClient client = server.Connect();
  client.Send(Get("/hello"));
  EXPECT_EQ(client.ReadResponse()->body, "hi");
  hold.unlock();
  for (RawClient& post : posts) EXPECT_EQ(post.ReadResponse()->status, 200);
}

TEST(HttpServer, StopsInOrder) {
  TestServer server;
  Holder holder(server);
  RawClient idle = server.Connect();
  RawClient running = server.Connect();
  running.Send(Post("/hold", "{}"));
  const auto held = holder.Take(1).at(0);
  server->StopAccepting();
  EXPECT_FALSE(server->WaitIdle(milliseconds(50)));
  EXPECT_TRUE(idle.IsClosed());
  held->Respond({.body = "done"});
  EXPECT_TRUE(server->WaitIdle(kPatience));
  const auto response = running.ReadResponse();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, "done");
  EXPECT_EQ(response->headers.at("connection"), "close");
  EXPECT_TRUE(running.IsClosed());
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  HttpServerOptions options;
  options.port = server->port();
  const auto taken = HttpServer::Start(options, [](auto) {});
  ASSERT_FALSE(taken.ok());
  EXPECT_NE(taken.status().message().find("--port"), std::string::npos);
  EXPECT_NE(taken.status().message().find(std::to_string(options.port)), std::string::npos);
  options.host = "no.such.host.invalid";
  EXPECT_FALSE(HttpServer::Start(options, [](auto) {}).ok());
  options.port = 70000;
  EXPECT_FALSE(HttpServer::Start(options, [](auto) {}).ok());
}

TEST(HttpServer, LogsWhatWasAskedAndNothingOfItsContent) {
  TestServer server;
  RawClient client = server.Connect();
  client.Send(
      "POST /echo?secret HTTP/1.1\r\nHost: h\r\nX-Request-Id: r1\r\nContent-Length: "
      "6\r\n\r\nprompt");
  ASSERT_TRUE(client.ReadResponse());
  EXPECT_TRUE(server->WaitIdle(kPatience));
  ASSERT_EQ(server.records().size(), 1U);
  const AccessRecord record = server.records().front();
  EXPECT_EQ(record.status, 200);
  EXPECT_GT(record.bytes, 6);
  EXPECT_GE(record.seconds, 0);
  EXPECT_TRUE(record.complete);
  const std::string json = record.ToJson();
  EXPECT_NE(json.find(R"("id": "r1", "client": "127.0.0.1:)"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("method": "POST", "path": "/echo", "status": 200)"), std::string::npos)
      << json;
  EXPECT_EQ(json.find("secret"), std::string::npos);
  EXPECT_EQ(json.find("prompt"), std::string::npos);
}

}  // namespace
}  // namespace decant
