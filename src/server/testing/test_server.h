#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/http_server.h"
#include "server/testing/raw_client.h"

namespace decant {

/// A server on a free port whose handlers are lambdas by path; what it logs is kept.
class TestServer {
 public:
  explicit TestServer(HttpServerOptions options = {}) {
    options.port = 0;
    options.access_log = [this](const AccessRecord& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
    };
    auto server = HttpServer::Start(std::move(options), [this](auto exchange) {
      const auto found = handlers.find(exchange->request().path);
      if (found != handlers.end()) return found->second(std::move(exchange));
      exchange->Respond({.status = 404, .body = "no such page"});
    });
    EXPECT_TRUE(server.ok()) << server.status().message();
    server_ = std::move(server).value();
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  RawClient Connect(int receive_buffer = 0) { return RawClient(server_->port(), receive_buffer); }
  void Stop() { server_.reset(); }

  std::vector<AccessRecord> records() {
    const std::lock_guard lock(mutex_);
    return records_;
  }

  /// Filled before the first request; called on the server's threads.
  std::map<std::string, std::function<void(std::shared_ptr<HttpExchange>)>> handlers{
      {"/hello",
       [](auto exchange) { exchange->Respond({.content_type = "text/plain", .body = "hi"}); }},
      {"/echo", [](auto exchange) { exchange->Respond({.body = exchange->request().body}); }},
  };

 private:
  std::mutex mutex_;
  std::vector<AccessRecord> records_;
  std::unique_ptr<HttpServer> server_;  // last: its handlers use the rest
};

/// Keeps exchanges as an engine does, to answer them later from another thread.
class Holder {
 public:
  explicit Holder(TestServer& server) {
    server.handlers["/hold"] = [this](auto exchange) {
      const std::lock_guard lock(mutex_);
      held_.push_back(std::move(exchange));
      changed_.notify_all();
    };
  }

  /// Waits until `count` have come, and hands them over.
  std::vector<std::shared_ptr<HttpExchange>> Take(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, kPatience, [&] { return held_.size() >= count; }));
    return std::exchange(held_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<HttpExchange>> held_;
};

/// Whether `condition` comes true, asked again and again for kPatience at most.
template <typename Condition>
bool Eventually(Condition condition) {
  const Stopwatch watch;
  while (!condition()) {
    if (watch.Seconds() * 1e3 > static_cast<double>(kPatience.count())) return false;
    std::this_thread::yield();
  }
  return true;
}

inline std::string Get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: test\r\n\r\n";
}

inline std::string Post(const std::string& path, const std::string& body) {
  return "POST " + path + " HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace decant
