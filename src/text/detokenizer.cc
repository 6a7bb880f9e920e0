#include "text/detokenizer.h"

namespace decant {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, ControlTokens control)
    : tokenizer_(&tokenizer), control_(control), stream_(tokenizer.decoder_) {}

std::string Detokenizer::Push(int32_t token) {
  std::string text;
  if (token < 0 || token >= tokenizer_->vocab_size()) return text;
  if (control_ == ControlTokens::kHide && tokenizer_->is_control(token)) return text;
  stream_.Push(tokenizer_->Decoded(token), text);
  return text;
}

std::string Detokenizer::Flush() {
  std::string text;
  stream_.Finish(text);
  return text;
}

}  // namespace decant
