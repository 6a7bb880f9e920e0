#include "bench/complete_all.h"

#include <fmt/format.h>

#include <chrono>
#include <future>
#include <utility>

#include "base/interrupt.h"

namespace decant {
namespace {

Expected<std::vector<Completion>> SubmitAndWait(Engine& engine,
                                                std::vector<GenerateRequest> requests,
                                                const PromptProgress& progress) {
  const uint64_t before = engine.Stats().prompt_tokens;
  int64_t total = 0;
  for (const GenerateRequest& request : requests) total += std::ssize(request.prompt);
  std::vector<std::future<Completion>> futures;
  for (GenerateRequest& request : requests) {
    auto future = SubmitAndCollect(engine, std::move(request));
    if (!future.ok()) {
      return future.status().WithContext(fmt::format("request {}", futures.size()));
    }
    futures.push_back(std::move(future).value());
  }
  std::vector<Completion> completions;
  for (std::future<Completion>& future : futures) {
    while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      if (InterruptRequested()) return Error(StatusCode::kCancelled, "interrupted");
      if (progress) {
        progress(static_cast<int64_t>(engine.Stats().prompt_tokens - before), total);
      }
    }
    completions.push_back(future.get());
    DECANT_RETURN_IF_ERROR(completions.back().status);
  }
  return completions;
}

}  // namespace

Expected<std::vector<Completion>> CompleteAll(Engine& engine, std::vector<GenerateRequest> requests,
                                              const PromptProgress& progress) {
  auto completions = SubmitAndWait(engine, std::move(requests), progress);
  if (!completions.ok()) engine.Stop();
  return completions;
}

}  // namespace decant
