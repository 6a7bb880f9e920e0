#include "apps/stream_answer.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/interrupt.h"

namespace decant {
namespace {

/// Writes the text as it comes. All calls come from the engine's loop, the last one fulfils `done`.
class Printer {
 public:
  std::future<StreamedAnswer> answer() { return done_.get_future(); }

  void Update(const StreamUpdate& update) {
    std::fwrite(update.text.data(), 1, update.text.size(), stdout);
    std::fflush(stdout);
    answer_.text += update.text;
    if (update.token && update.generated_tokens == 1) first_token_ = update.time;
    if (!update.finish) return;
    answer_.finish = *update.finish;
    answer_.status = update.status;
    answer_.prompt_tokens = update.prompt_tokens;
    answer_.generated_tokens = update.generated_tokens;
    if (first_token_ != 0) {
      answer_.first_seconds = static_cast<double>(first_token_ - submitted_) * 1e-9;
      answer_.rest_seconds = static_cast<double>(update.time - first_token_) * 1e-9;
    }
    done_.set_value(std::move(answer_));
  }

 private:
  const int64_t submitted_ = SteadyNanos();
  int64_t first_token_ = 0;
  StreamedAnswer answer_;
  std::promise<StreamedAnswer> done_;
};

}  // namespace

Expected<StreamedAnswer> StreamAnswer(Engine& engine, GenerateRequest request) {
  const auto printer = std::make_shared<Printer>();
  std::future<StreamedAnswer> done = printer->answer();
  request.sink = [printer](const StreamUpdate& update) { printer->Update(update); };
  DECANT_ASSIGN_OR_RETURN(const RequestId id, engine.Submit(std::move(request)));
  while (done.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (InterruptRequested()) engine.Cancel(id);
  }
  StreamedAnswer answer = done.get();
  if (!answer.text.empty() && answer.text.back() != '\n') std::fputs("\n", stdout);
  std::fflush(stdout);
  return answer;
}

std::string DescribeAnswer(const StreamedAnswer& answer) {
  std::string line =
      fmt::format("[{}; prompt: {} tokens", FinishReasonName(answer.finish), answer.prompt_tokens);
  if (answer.generated_tokens > 0) {
    line += fmt::format(" in {:.3f} s, {:.0f} tokens/s; generated: {} tokens", answer.first_seconds,
                        answer.prompt_tokens / answer.first_seconds, answer.generated_tokens);
  }
  if (answer.generated_tokens > 1) {
    line += fmt::format(" in {:.2f} s, {:.1f} tokens/s", answer.rest_seconds,
                        (answer.generated_tokens - 1) / answer.rest_seconds);
  }
  return line + "]";
}

}  // namespace decant
