#pragma once

#include <cstdint>
#include <string>

#include "text/decoder.h"
#include "text/tokenizer.h"

namespace decant {

/// Turns a stream of tokens into a stream of text without ever showing half a code point. All
/// pieces and Flush, joined, are Tokenizer::Decode of all tokens.
class Detokenizer {
 public:
  /// `tokenizer` must outlive it.
  Detokenizer(const Tokenizer& tokenizer, ControlTokens control);

  /// The text that `token` completes, maybe none. Bytes that cannot become UTF-8 show as U+FFFD at
  /// once, bytes that still can wait; but what a run of byte-fallback tokens becomes, the reference
  /// decides by the whole run, and so it waits for the next token of another kind.
  std::string Push(int32_t token);

  /// The end of the stream: what still waits. The next Push begins anew.
  std::string Flush();

 private:
  const Tokenizer* tokenizer_;
  ControlTokens control_;
  DecodeStream stream_;
};

}  // namespace decant
