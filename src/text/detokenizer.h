#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace decant {

/// Turns a stream of tokens into a stream of text without ever showing half a code point. All
/// pieces and Flush, joined, are Tokenizer::Decode of all tokens.
class Detokenizer {
 public:
  /// `tokenizer` must outlive it.
  Detokenizer(const Tokenizer& tokenizer, ControlTokens control);

  /// The text that `token` completes, maybe none. Bytes that cannot become UTF-8 show as U+FFFD at
  /// once; bytes that still can (at most 3) wait.
  std::string Push(int32_t token);

  /// The end of the stream: U+FFFD if bytes still wait, else nothing. The next Push begins anew.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  ControlTokens control_;
  std::string pending_;  ///< The beginning of a code point, 0 to 3 bytes.
};

}  // namespace decant
