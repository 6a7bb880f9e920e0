#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "server/completion_request.h"
#include "server/completion_response.h"
#include "server/logprobs_json.h"
#include "server/random_ids.h"
#include "server/request_observer.h"
#include "server/tool_calls.h"

namespace decant {

/// What answers share. All outlive them.
struct AnswerContext {
  Engine& engine;
  const Tokenizer& tokenizer;
  RandomIds& ids;
  RequestObserver* observer = nullptr;  ///< Null: nobody listens.
};

/// One request's way from the engine's updates to its client: whole, once all choices have ended,
/// or as a stream that begins with the first token, so that what fails before has a status of its
/// own. It lives as long as the engine holds one of its sinks. Thread-safe.
class Answer : public std::enable_shared_from_this<Answer> {
 public:
  /// `arrived`: SteadyNanos when the request was read.
  Answer(const AnswerContext& context, CompletionCall call, std::shared_ptr<HttpExchange> exchange,
         int64_t arrived);

  const CompletionCall& call() const { return call_; }

  /// Gives the engine a request for each prompt. Where it refuses one, the client gets the error
  /// and what was submitted before is cancelled. Called once.
  void Submit();

 private:
  /// How far a choice is.
  struct Choice {
    ToolCallParser parser;
    LogprobsJson logprobs;
    std::string text{};   ///< Of a whole answer.
    std::string calls{};  ///< Likewise, JSON with commas between.
    int32_t calls_found = 0;
    bool begun = false;
    std::optional<FinishReason> finish{};
    SampleTimes times{};
  };

  void OnUpdate(size_t prompt, const StreamUpdate& update);
  void Observe(const StreamUpdate& update, Choice& choice) const;
  void AddEcho(size_t prompt, const StreamUpdate& update, Choice& choice, std::string& text);
  std::string FindCalls(const StreamUpdate& update, Choice& choice, std::string& calls);
  void SendChunk(int32_t index, std::string_view text, std::string_view calls, Choice& choice);
  void End();
  void RespondWhole();
  void Send(std::string bytes);
  void Fail(const ApiError& error);
  void AddRequest(RequestId id);
  void Cancel();

  const AnswerContext context_;
  const CompletionCall call_;
  const int64_t arrived_;
  const ResponseWriter writer_;

  std::mutex mutex_;                        ///< Guards what follows, up to begun_.
  std::shared_ptr<HttpExchange> exchange_;  ///< Null once the client has all it gets.
  std::vector<Choice> choices_;
  std::vector<std::vector<PositionLogprobs>> prompt_logprobs_;  ///< By prompt, for echo.
  int32_t left_;                                                ///< Choices not ended.
  Usage usage_;
  bool begun_ = false;  ///< The stream.

  std::mutex requests_mutex_;  ///< Guards what follows; taken last.
  std::vector<RequestId> requests_;
  bool cancelled_ = false;
};

}  // namespace decant
