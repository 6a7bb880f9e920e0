#include "engine/completion.h"

#include <memory>
#include <utility>

#include "base/check.h"

namespace decant {

namespace {

/// Submits a request whose completions go to `done` when all have ended.
template <typename Done>
Status Submit(Engine& engine, GenerateRequest request, Done done) {
  DECANT_CHECK(!request.sink, "the request has a sink of its own");
  struct Collector {
    std::vector<Completion> completions;
    int32_t left;
    Done done;
  };
  auto collector = std::make_shared<Collector>(
      Collector{.completions = {}, .left = request.samples, .done = std::move(done)});
  request.sink = [collector](const StreamUpdate& update) {
    auto& completions = collector->completions;
    if (std::cmp_greater_equal(update.sample, completions.size())) {
      completions.resize(update.sample + 1);
    }
    Completion& completion = completions[update.sample];
    if (update.token) {
      completion.tokens.push_back(*update.token);
      completion.token_times.push_back(update.time);
    }
    if (update.logprobs != nullptr) completion.logprobs.push_back(*update.logprobs);
    if (!update.prompt_logprobs.empty()) {
      completion.prompt_logprobs.assign(update.prompt_logprobs.begin(),
                                        update.prompt_logprobs.end());
    }
    completion.text += update.text;
    if (!update.finish) return;
    completion.request = update.request;
    completion.sample = update.sample;
    completion.finish = *update.finish;
    completion.status = update.status;
    if (--collector->left == 0) collector->done(std::move(completions));
  };
  return engine.Submit(std::move(request)).status();
}

}  // namespace

Expected<std::future<std::vector<Completion>>> SubmitAndCollectSamples(Engine& engine,
                                                                       GenerateRequest request) {
  auto promise = std::make_shared<std::promise<std::vector<Completion>>>();
  auto future = promise->get_future();
  DECANT_RETURN_IF_ERROR(
      Submit(engine, std::move(request), [promise](std::vector<Completion> completions) {
        promise->set_value(std::move(completions));
      }));
  return future;
}

Expected<std::future<Completion>> SubmitAndCollect(Engine& engine, GenerateRequest request) {
  DECANT_CHECK(request.samples == 1, "{} samples for one completion", request.samples);
  auto promise = std::make_shared<std::promise<Completion>>();
  auto future = promise->get_future();
  DECANT_RETURN_IF_ERROR(
      Submit(engine, std::move(request), [promise](std::vector<Completion> completions) {
        promise->set_value(std::move(completions.front()));
      }));
  return future;
}

}  // namespace decant
