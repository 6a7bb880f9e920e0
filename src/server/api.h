#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "model/model_files.h"
#include "server/api_error.h"
#include "server/http_exchange.h"
#include "server/request_observer.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

namespace decant {

struct ApiOptions {
  std::vector<std::string> served_names{};
  std::vector<std::string> api_keys{};
  int32_t max_model_len = 0;
  int32_t vocab_size = 0;
  int32_t rows = 0;
  int32_t num_pages = 0;
  int32_t page_size = 64;
  int32_t max_queued_requests = 1024;
  GenerationDefaults defaults{};
};

/// Answers /health; stands here until the whole API does.
class Api {
 public:
  Api(ApiOptions options, Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
      std::optional<ChatPrompter> prompter, RequestObserver* observer)
      : engine_(engine) {
    static_cast<void>(options);
    static_cast<void>(tokenizer);
    static_cast<void>(prompter);
    static_cast<void>(observer);
  }

  void Handle(const std::shared_ptr<HttpExchange>& exchange) {
    if (exchange->request().path != "/health") {
      return exchange->Respond(ErrorResponse(404, "not_found_error", "There is no such page."));
    }
    if (shutting_down_ || !engine_.Health().ok()) {
      return exchange->Respond(ErrorResponse(503, "service_unavailable_error", "Not serving."));
    }
    exchange->Respond({.body = R"({"status":"ok"})"});
  }

  void BeginShutdown() { shutting_down_ = true; }

 private:
  Engine& engine_;
  std::atomic<bool> shutting_down_ = false;
};

}  // namespace decant
