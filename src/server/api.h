#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "server/api_model.h"
#include "server/completion_request.h"
#include "server/http_exchange.h"
#include "server/random_ids.h"
#include "server/request_observer.h"

namespace decant {

/// OpenAI's API over an engine; docs/api.md describes it. It knows the paths, who may use them and
/// whether there is room; completion_request.h reads what is asked for, answer.h answers. No
/// exception leaves it, and nothing that a client sends gives a 5xx.
class Api {
 public:
  using Page = std::function<HttpResponse(const HttpRequest&)>;

  /// `engine` and `observer`, which may be null, must outlive it, and it must outlive what the
  /// engine still runs of its requests.
  Api(ApiOptions options, Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
      std::optional<ChatPrompter> prompter, RequestObserver* observer);

  /// Serves GET of `path` without asking for a key. Before the first Handle.
  void AddPage(std::string path, Page page);

  /// "GET /health" and the like, in order of path; one that ends in '/' stands for all below it.
  std::vector<std::string> Routes() const;

  /// Answers, now or as the engine goes on. Thread-safe.
  void Handle(const std::shared_ptr<HttpExchange>& exchange);

  /// From now on there is no new work: 503, /health included. What runs goes on.
  void BeginShutdown() { shutting_down_ = true; }

 private:
  enum class Access { kOpen, kKey };
  using Post = std::function<void(const std::shared_ptr<HttpExchange>&)>;
  struct Route {
    Access access = Access::kOpen;
    Page get{};
    Post post{};
  };

  const Route* FindRoute(const std::string& path) const;
  std::optional<HttpResponse> Refuse(const Route& route, const HttpRequest& request) const;
  bool Knows(const HttpRequest& request) const;
  std::optional<ApiError> WhyNoWork() const;
  HttpResponse Health() const;
  HttpResponse Models() const;
  HttpResponse Model(const HttpRequest& request) const;
  std::string ModelJson(std::string_view name) const;
  void Complete(ApiKind kind, const std::shared_ptr<HttpExchange>& exchange);
  void Start(CompletionCall call, std::shared_ptr<HttpExchange> exchange, int64_t arrived);
  std::optional<ApiError> WhyNoRoom(int32_t choices) const;

  const ApiModel model_;
  Engine& engine_;
  RequestObserver* const observer_;
  const int64_t started_;  ///< Seconds since 1970.
  RandomIds ids_;
  std::map<std::string, Route, std::less<>> routes_;
  std::atomic<bool> shutting_down_ = false;
  std::mutex admission_;  ///< Held from asking for room to taking it.
};

}  // namespace decant
