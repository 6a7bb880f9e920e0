#include "text/detokenizer.h"

#include <utility>

#include "text/utf8.h"

namespace decant {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, ControlTokens control)
    : tokenizer_(&tokenizer), control_(control) {}

std::string Detokenizer::Push(int32_t token) {
  if (control_ == ControlTokens::kHide && tokenizer_->is_control(token)) return {};
  pending_.append(tokenizer_->TokenBytes(token));
  std::string text;
  const size_t left = AppendCompleteUtf8(pending_, text);
  pending_.erase(0, pending_.size() - left);
  return text;
}

std::string Detokenizer::Flush() { return RepairUtf8(std::exchange(pending_, {})); }

}  // namespace decant
