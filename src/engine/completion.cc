#include "engine/completion.h"

#include <memory>
#include <utility>

#include "base/check.h"

namespace decant {

Expected<std::future<Completion>> SubmitAndCollect(Engine& engine, GenerateRequest request) {
  DECANT_CHECK(!request.sink, "the request has a sink of its own");
  struct Collector {
    Completion completion;
    std::promise<Completion> promise;
  };
  auto collector = std::make_shared<Collector>();
  std::future<Completion> future = collector->promise.get_future();
  request.sink = [collector](const StreamUpdate& update) {
    Completion& completion = collector->completion;
    if (update.token) {
      completion.tokens.push_back(*update.token);
      completion.token_times.push_back(update.time);
    }
    completion.text += update.text;
    if (!update.finish) return;
    completion.request = update.request;
    completion.finish = *update.finish;
    completion.status = update.status;
    collector->promise.set_value(std::move(completion));
  };
  DECANT_ASSIGN_OR_RETURN([[maybe_unused]] const RequestId id, engine.Submit(std::move(request)));
  return future;
}

}  // namespace decant
