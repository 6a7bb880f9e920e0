#include "server/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/json.h"

namespace decant {
namespace {

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string_view IdPrefix(ApiKind kind) { return kind == ApiKind::kChat ? "chatcmpl-" : "cmpl-"; }

ApiError EndedByUs(FinishReason reason, const Status& status) {
  if (reason == FinishReason::kFailed) {
    return {.status = 500,
            .type = kServerError,
            .message = fmt::format("the request has failed: {}", status.message())};
  }
  return {.status = 503, .type = kUnavailableError, .message = "the server is shutting down"};
}

void AppendJson(std::string_view json, std::string& list) {
  if (!list.empty() && !json.empty()) list += ", ";
  list += json;
}

/// Why the engine did not take a request.
ApiError Refused(const Engine& engine, const Status& status) {
  if (const Status health = engine.Health(); !health.ok()) {
    return {.status = 503, .type = kUnavailableError, .message = health.message()};
  }
  const bool at_fault = status.code() == StatusCode::kInvalidArgument ||
                        status.code() == StatusCode::kResourceExhausted;
  if (at_fault) return {.message = status.message()};
  return {.status = 500, .type = kServerError, .message = status.message()};
}

}  // namespace

Answer::Answer(const AnswerContext& context, CompletionCall call,
               std::shared_ptr<HttpExchange> exchange, int64_t arrived)
    : context_(context),
      call_(std::move(call)),
      arrived_(arrived),
      writer_(call_, context.ids.Next(IdPrefix(call_.kind)), UnixSeconds()),
      exchange_(std::move(exchange)),
      prompt_logprobs_(call_.prompts.size()),
      left_(call_.choices()) {
  const size_t max_calls = call_.parallel_tool_calls ? std::numeric_limits<size_t>::max() : 1;
  const Choice choice{.parser = ToolCallParser(max_calls),
                      .logprobs = LogprobsJson(call_.kind, context_.tokenizer)};
  choices_.resize(call_.choices(), choice);
  for (const CallPrompt& prompt : call_.prompts) {
    usage_.prompt_tokens += static_cast<int64_t>(prompt.tokens.size());
  }
}

void Answer::Submit() {
  // The engine may be done before this returns.
  const std::shared_ptr<HttpExchange> exchange = exchange_;
  for (size_t i = 0; i < call_.prompts.size(); ++i) {
    GenerateRequest request = call_.settings;
    request.prompt = call_.prompts[i].tokens;
    request.max_new_tokens = call_.prompts[i].max_new_tokens;
    request.sink = [self = shared_from_this(), i](const StreamUpdate& update) {
      self->OnUpdate(i, update);
    };
    const Expected<RequestId> id = context_.engine.Submit(std::move(request));
    if (!id.ok()) {
      const std::lock_guard lock(mutex_);
      return Fail(Refused(context_.engine, id.status()));
    }
    AddRequest(*id);
  }
  exchange->OnGone([weak = weak_from_this()] {
    if (const std::shared_ptr<Answer> answer = weak.lock()) answer->Cancel();
  });
}

void Answer::OnUpdate(size_t prompt, const StreamUpdate& update) {
  const std::lock_guard lock(mutex_);
  const int32_t index = static_cast<int32_t>(prompt) * call_.settings.samples + update.sample;
  Choice& choice = choices_[index];
  Observe(update, choice);
  if (update.token) ++usage_.completion_tokens;
  if (update.finish) {
    choice.finish = update.finish;
    --left_;
  }
  if (exchange_ == nullptr) return;
  if (update.finish == FinishReason::kCancelled || update.finish == FinishReason::kFailed) {
    return Fail(EndedByUs(*update.finish, update.status));
  }
  std::string text(update.text);
  std::string calls;
  if (call_.tools) text = FindCalls(update, choice, calls);
  if (!choice.begun) AddEcho(prompt, update, choice, text);
  if (update.logprobs != nullptr) choice.logprobs.Add(*update.logprobs);
  if (call_.stream) {
    SendChunk(index, text, calls, choice);
  } else {
    choice.text += text;
    AppendJson(calls, choice.calls);
  }
  choice.begun = true;
  if (left_ == 0) End();
}

void Answer::Observe(const StreamUpdate& update, Choice& choice) const {
  SampleTimes& times = choice.times;
  times.arrived = arrived_;
  if (update.admitted_time) times.admitted = *update.admitted_time;
  const bool first = update.token && times.first_token == 0;
  const int64_t gap = update.time - times.last_token;
  if (first) times.first_token = update.time;
  if (update.token) times.last_token = update.time;
  if (update.finish) times.ended = update.time;
  RequestObserver* const observer = context_.observer;
  if (observer == nullptr) return;
  if (first) observer->OnFirstToken(times);
  if (update.token && !first) observer->OnTokenGap(static_cast<double>(gap) * 1e-9);
  if (update.finish) {
    observer->OnEnd(times, *update.finish, update.prompt_tokens, update.generated_tokens);
  }
}

/// Puts the prompt before a choice's first text, where the request asks for it. The engine reports
/// the prompt's log-probabilities with the first token of sample 0, which comes before all others.
void Answer::AddEcho(size_t prompt, const StreamUpdate& update, Choice& choice, std::string& text) {
  if (!call_.echo) return;
  const CallPrompt& echoed = call_.prompts[prompt];
  text.insert(0, echoed.text);
  if (!call_.settings.sampling.prompt_logprobs) return;
  std::vector<PositionLogprobs>& logprobs = prompt_logprobs_[prompt];
  if (update.sample == 0) {
    logprobs.assign(update.prompt_logprobs.begin(), update.prompt_logprobs.end());
  }
  const std::string_view first = context_.tokenizer.TokenBytes(echoed.tokens.front());
  choice.logprobs.AddPrompt(echoed.tokens, logprobs, echoed.text.starts_with(first));
}

/// Appends the JSON of the calls that the update completes to `calls`; returns what is content.
std::string Answer::FindCalls(const StreamUpdate& update, Choice& choice, std::string& calls) {
  ToolCallParser::Piece piece = choice.parser.Push(update.text);
  if (update.finish) {
    ToolCallParser::Piece rest = choice.parser.Finish();
    piece.content += rest.content;
    std::ranges::move(rest.calls, std::back_inserter(piece.calls));
  }
  for (const ToolCall& call : piece.calls) {
    const int32_t index = choice.calls_found++;
    AppendJson(ToolCallToJson(call, context_.ids.Next("call_"),
                              call_.stream ? std::optional(index) : std::nullopt),
               calls);
  }
  return std::move(piece.content);
}

void Answer::SendChunk(int32_t index, std::string_view text, std::string_view calls,
                       Choice& choice) {
  ChoiceJson json{.index = index, .logprobs = choice.logprobs.Take()};
  // While a tool call grows there is nothing to tell; otherwise every token has its chunk.
  const bool quiet = call_.tools && text.empty() && calls.empty() && json.logprobs == "null";
  if (quiet && choice.begun && !choice.finish) return;
  if (choice.finish) json.finish_reason = FinishReasonJson(*choice.finish, choice.calls_found > 0);
  if (call_.kind == ApiKind::kCompletions) {
    json.body = JsonQuote(text);
  } else {
    MessageParts delta{.role = !choice.begun, .calls = calls};
    if (!text.empty() || (!choice.finish && calls.empty())) delta.content = text;
    json.body = MessageToJson(delta);
  }
  Send(writer_.Chunk(json, usage_));
}

/// All choices have ended.
void Answer::End() {
  if (!call_.stream) return RespondWhole();
  if (call_.include_usage) Send(writer_.UsageChunk(usage_));
  Send(std::string(kDoneEvent));
  if (exchange_ == nullptr) return;
  exchange_->EndStream();
  exchange_.reset();
}

void Answer::RespondWhole() {
  std::vector<ChoiceJson> json;
  for (Choice& choice : choices_) {
    ChoiceJson& added = json.emplace_back();
    added.index = static_cast<int32_t>(json.size()) - 1;
    added.logprobs = choice.logprobs.Take();
    added.finish_reason = FinishReasonJson(*choice.finish, choice.calls_found > 0);
    if (call_.kind == ApiKind::kCompletions) {
      added.body = JsonQuote(choice.text);
      continue;
    }
    MessageParts message{.role = true, .null_content = true, .calls = choice.calls};
    if (!choice.text.empty() || choice.calls.empty()) message.content = choice.text;
    added.body = MessageToJson(message);
  }
  exchange_->Respond({.body = writer_.Whole(json, usage_)});
  exchange_.reset();
}

/// Adds to the stream, beginning it. Where nobody reads any more, the rest is given up.
void Answer::Send(std::string bytes) {
  if (exchange_ == nullptr) return;
  if (!std::exchange(begun_, true)) exchange_->BeginStream({});
  if (exchange_->Send(std::move(bytes))) return;
  exchange_.reset();
  Cancel();
}

/// Ends the answer with an error and gives up what still runs.
void Answer::Fail(const ApiError& error) {
  if (exchange_ == nullptr) return;
  if (!begun_) {
    exchange_->Respond(ErrorResponse(error));
  } else if (exchange_->Send(ErrorEvent(error) + std::string(kDoneEvent))) {
    exchange_->EndStream();
  }
  exchange_.reset();
  Cancel();
}

void Answer::AddRequest(RequestId id) {
  const std::lock_guard lock(requests_mutex_);
  requests_.push_back(id);
  if (cancelled_) context_.engine.Cancel(id);
}

void Answer::Cancel() {
  const std::lock_guard lock(requests_mutex_);
  cancelled_ = true;
  for (const RequestId id : requests_) context_.engine.Cancel(id);
}

}  // namespace decant
