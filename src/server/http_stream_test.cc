#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "server/testing/test_server.h"

namespace decant {
namespace {

using std::chrono::milliseconds;

/// Counts calls and waits for them.
class Signal {
 public:
  void Set() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  bool Wait() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return count_ > 0; });
  }
  int count() {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int count_ = 0;
};

std::string Event(int number) { return "data: {\"n\":" + std::to_string(number) + "}\n\n"; }

TEST(HttpStream, CarriesEventsInOrderAndKeepsTheConnection) {
  TestServer server;
  Holder holder(server);
  RawClient client = server.Connect();
  for (int round = 0; round < 2; ++round) {
    client.Send(Post("/hold", "{}"));
    const auto exchange = holder.Take(1).at(0);
    Signal gone;
    exchange->OnGone([&] { gone.Set(); });
    exchange->BeginStream({{"X-More", "yes"}});
    std::string expected;
    for (int i = 0; i < 100; ++i) {
      expected += Event(i);
      EXPECT_TRUE(exchange->Send(Event(i)));
      if (i % 10 == 0) std::this_thread::sleep_for(milliseconds(1));
    }
    exchange->EndStream();
    auto response = client.ReadResponse();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, expected);
    EXPECT_EQ(response->headers["content-type"], "text/event-stream; charset=utf-8");
    EXPECT_EQ(response->headers["cache-control"], "no-cache");
    EXPECT_EQ(response->headers["x-more"], "yes");
    EXPECT_EQ(response->headers["connection"], "keep-alive");
    EXPECT_EQ(gone.count(), 0);
  }
  EXPECT_TRUE(server->WaitIdle(kPatience));
  EXPECT_TRUE(server.records().at(1).streamed);
}

TEST(HttpStream, EndsWithTheConnectionInTheOldVersion) {
  TestServer server;
  Holder holder(server);
  RawClient client = server.Connect();
  client.Send("POST /hold HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}");
  const auto exchange = holder.Take(1).at(0);
  exchange->BeginStream({});
  exchange->Send(Event(1));
  exchange->EndStream();
  auto response = client.ReadResponse();
  ASSERT_TRUE(response);
  EXPECT_EQ(response->body, Event(1));
  EXPECT_EQ(response->headers.count("transfer-encoding"), 0U);
  EXPECT_EQ(response->headers["connection"], "close");
}

/// Seconds from a client's going away to when its request, a stream that has `begun` or not, hears
/// of it, though nothing is sent.
double SecondsToNotice(TestServer& server, Holder& holder, bool begun) {
  RawClient client = server.Connect();
  client.Send(Post("/hold", "{}"));
  const auto exchange = holder.Take(1).at(0);
  if (begun) {
    exchange->BeginStream({});
    exchange->Send(Event(0));
    EXPECT_NE(client.ReadUntil("\n\n"), "");
  }
  Signal gone;
  exchange->OnGone([&] { gone.Set(); });
  const Stopwatch watch;
  client.Close();
  EXPECT_TRUE(gone.Wait());
  const double seconds = watch.Seconds();
  if (begun) {
    EXPECT_FALSE(exchange->Send(Event(1)));
    exchange->EndStream();
  } else {
    exchange->Respond({});
  }
  Signal late;
  exchange->OnGone([&] { late.Set(); });
  EXPECT_EQ(late.count(), 1);
  EXPECT_EQ(gone.count(), 1);
  return seconds;
}

TEST(HttpStream, NoticesAClientThatGoesAwayThoughNothingIsSent) {
  constexpr double kAtOnce =
      0.1;  // seconds; to look at each connection once in a while takes longer
  TestServer server;
  Holder holder(server);
  for (const bool begun : {false, true}) {
    // A busy machine only makes it later: one try of several must be at once.
    EXPECT_TRUE(Eventually([&] { return SecondsToNotice(server, holder, begun) < kAtOnce; }));
  }
  EXPECT_TRUE(server->WaitIdle(kPatience));
  for (const AccessRecord& record : server.records()) EXPECT_FALSE(record.complete);
}

TEST(HttpStream, CutsOffAReaderThatIsTooSlow) {
  HttpServerOptions options;
  options.limits.stream_buffer_bytes = 256 << 10;
  TestServer server(options);
  Holder holder(server);
  RawClient client = server.Connect(4096);
  client.Send(Post("/hold", "{}"));
  const auto exchange = holder.Take(1).at(0);
  Signal gone;
  exchange->OnGone([&] { gone.Set(); });
  exchange->BeginStream({});
  const std::string bytes(16 << 10, 'x');
  int sent = 0;
  while (sent < 10000 && exchange->Send(bytes)) ++sent;
  EXPECT_LT(sent, 10000);
  EXPECT_TRUE(gone.Wait());
  EXPECT_FALSE(client.ReadResponse());
  EXPECT_EQ(server.records().size(), 1U) << "its line is there before its connection is gone";
}

TEST(HttpStream, CutsOffAReaderThatStopsReading) {
  HttpServerOptions options;
  options.limits.stall_timeout = milliseconds(100);
  options.limits.stream_buffer_bytes = 64 << 20;
  TestServer server(options);
  Holder holder(server);
  RawClient client = server.Connect(4096);
  client.Send(Post("/hold", "{}"));
  const auto exchange = holder.Take(1).at(0);
  Signal gone;
  exchange->OnGone([&] { gone.Set(); });
  exchange->BeginStream({});
  EXPECT_TRUE(exchange->Send(std::string(32 << 20, 'x')));
  EXPECT_TRUE(gone.Wait());
}

TEST(HttpStream, AnExchangeThatIsDroppedIsAnsweredAllTheSame) {
  TestServer server;
  Holder holder(server);
  server.handlers["/drop"] = [](auto) {};
  RawClient client = server.Connect();
  client.Send(Get("/drop") + Post("/drop", "{}"));
  EXPECT_EQ(client.ReadResponse()->status, 500);
  EXPECT_EQ(client.ReadResponse()->status, 500);
  client.Send(Post("/hold", "{}"));
  {
    const auto exchange = holder.Take(1).at(0);
    exchange->BeginStream({});
    exchange->Send(Event(0));
  }
  EXPECT_FALSE(client.ReadResponse()) << "a stream that broke off looks whole";
}

TEST(HttpStream, OutlivesItsServer) {
  std::vector<std::shared_ptr<HttpExchange>> left;
  Signal gone;
  {
    TestServer server;
    Holder holder(server);
    RawClient one = server.Connect();
    RawClient other = server.Connect();
    one.Send(Post("/hold", "{}"));
    left = holder.Take(1);
    other.Send(Post("/hold", "{}"));
    left.push_back(holder.Take(1).at(0));
    left.at(0)->BeginStream({});
    for (const auto& exchange : left) exchange->OnGone([&] { gone.Set(); });
    server.Stop();
  }
  EXPECT_EQ(gone.count(), 2);
  EXPECT_FALSE(left.at(0)->Send(Event(0)));
  left.at(1)->Respond({});
}

TEST(HttpStream, ManyThreadsSendOnManyStreams) {
  constexpr int kStreams = 200;
  constexpr int kThreads = 4;
  constexpr int kEvents = 50;
  for (const int io_threads : {1, 2}) {
    HttpServerOptions options;
    options.io_threads = io_threads;
    TestServer server(options);
    Holder holder(server);
    std::vector<RawClient> clients;
    for (int i = 0; i < kStreams; ++i) {
      clients.push_back(server.Connect());
      clients.back().Send(Post("/hold", "{}"));
    }
    const auto exchanges = holder.Take(kStreams);
    ASSERT_EQ(exchanges.size(), static_cast<size_t>(kStreams));
    std::atomic<int> gone = 0;
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (int i = thread; i < kStreams; i += kThreads) {
          exchanges[i]->OnGone([&] { ++gone; });
          exchanges[i]->BeginStream({});
        }
        for (int event = 0; event < kEvents; ++event) {
          for (int i = thread; i < kStreams; i += kThreads) exchanges[i]->Send(Event(event));
        }
        for (int i = thread; i < kStreams; i += kThreads) exchanges[i]->EndStream();
      });
    }
    // A few go away in the middle; nobody else may notice.
    for (int i = 0; i < kStreams; i += 20) clients[i].Close();
    std::string expected;
    for (int event = 0; event < kEvents; ++event) expected += Event(event);
    for (int i = 0; i < kStreams; ++i) {
      if (i % 20 == 0) continue;
      const auto response = clients[i].ReadResponse();
      ASSERT_TRUE(response) << i;
      EXPECT_EQ(response->body, expected);
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(server->WaitIdle(kPatience));
    EXPECT_EQ(server->requests_in_flight(), 0);
    EXPECT_LE(gone, kStreams / 20);
    EXPECT_EQ(server.records().size(), static_cast<size_t>(kStreams));
  }
}

}  // namespace
}  // namespace decant
