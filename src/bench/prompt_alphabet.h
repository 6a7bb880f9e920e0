#pragma once

#include <vector>

#include "sched/step_plan.h"
#include "text/tokenizer.h"

namespace decant {

/// The ids that random prompts are made of: all normal tokens.
inline std::vector<Token> PromptAlphabet(const Tokenizer& tokenizer) {
  std::vector<Token> ids;
  for (Token id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.type(id) == TokenType::kNormal) ids.push_back(id);
  }
  return ids;
}

}  // namespace decant
