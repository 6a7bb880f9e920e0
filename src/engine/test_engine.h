#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/fake_step_runner.h"
#include "sched/fake_forward.h"
#include "text/tokenizer.h"

namespace decant {

inline constexpr Token kEndOfTextToken = 14;

/// Fifteen tokens that give text with many coincidences: letters, pieces of several letters, "é"
/// whole and in halves, a space and an end of text.
inline std::shared_ptr<const Tokenizer> MakeTestTokenizer() {
  TokenizerData data;
  data.tokens = {"a",  "b",   "c",  "d", "e", "f", "g",      "h",
                 "ab", "cde", "Ã©", "Ã", "©", "Ġ", "<|end|>"};
  data.types.assign(data.tokens.size(), TokenType::kNormal);
  data.types.back() = TokenType::kControl;
  data.eos = {kEndOfTextToken};
  return std::make_shared<const Tokenizer>(Tokenizer::Create(std::move(data)).value());
}

/// An engine over a FakeForward whose freed pages are poisoned.
class TestEngine {
 public:
  struct Options {
    int32_t num_pages = 24;
    int32_t page_size = 4;
    int32_t max_batch = 4;
    int32_t chunk_tokens = 8;
    std::optional<ChunkPolicyConfig> chunk_policy{};
    size_t step_history = 1000;
    FakeStepRunner::Options runner{};
  };

  explicit TestEngine(const Options& options)
      : tokenizer_(MakeTestTokenizer()),
        forward_(options.num_pages, options.page_size, options.max_batch,
                 tokenizer_->vocab_size()) {
    EngineConfig config;
    config.scheduler = {.max_batch = options.max_batch,
                        .chunk_tokens = options.chunk_tokens,
                        .limits = {.max_model_len = 500, .vocab_size = tokenizer_->vocab_size()}};
    config.chunk_policy = options.chunk_policy;
    config.num_pages = options.num_pages;
    config.page_size = options.page_size;
    config.end_of_text = {kEndOfTextToken};
    config.step_history = options.step_history;
    config.free_observer = [this](std::span<const int32_t> pages) { forward_.Poison(pages); };
    engine_ = Engine::Create(std::move(config),
                             std::make_unique<FakeStepRunner>(forward_, options.runner), tokenizer_)
                  .value();
  }

  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  void Destroy() { engine_.reset(); }

  struct Answer {
    std::vector<Token> tokens;
    std::string text;
    FinishReason finish;
  };

  /// What `request` should get, computed token by token from whole histories and whole texts.
  Answer Reference(const GenerateRequest& request) const {
    Answer answer{.tokens = {}, .text = {}, .finish = FinishReason::kBudget};
    std::vector<Token> history = request.prompt;
    while (std::cmp_less(answer.tokens.size(), request.max_new_tokens)) {
      const Token token = forward_.NextToken(history, request.sampling, answer.tokens.size());
      history.push_back(token);
      answer.tokens.push_back(token);
      if (token == kEndOfTextToken && !request.ignore_end_of_text) {
        answer.finish = FinishReason::kEndOfText;
        break;
      }
      answer.text = tokenizer_->Decode(answer.tokens, ControlTokens::kHide);
      if (const auto cut = StopCut(answer.text, request.stop_strings)) {
        answer.text.resize(*cut);
        answer.finish = FinishReason::kStopString;
        break;
      }
    }
    return answer;
  }

 private:
  /// Where the stop string that ends first begins.
  static std::optional<size_t> StopCut(const std::string& text,
                                       const std::vector<std::string>& stops) {
    std::optional<std::pair<size_t, size_t>> first;  // end, begin
    for (const std::string& stop : stops) {
      const size_t begin = text.find(stop);
      if (begin == std::string::npos) continue;
      const std::pair<size_t, size_t> match(begin + stop.size(), begin);
      if (!first || match < *first) first = match;
    }
    return first ? std::optional(first->second) : std::nullopt;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  FakeForward forward_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace decant
