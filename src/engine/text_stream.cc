#include "engine/text_stream.h"

#include <utility>

namespace decant {

TextStream::TextStream(const Tokenizer& tokenizer, StopMatcher stops)
    : detokenizer_(tokenizer, ControlTokens::kHide), stops_(std::move(stops)) {}

TextStream::Piece TextStream::Push(Token token) { return stops_.Push(detokenizer_.Push(token)); }

TextStream::Piece TextStream::PushLast(Token token) {
  Piece piece = Push(token);
  Piece rest = Finish();
  piece.text += rest.text;
  piece.stopped = rest.stopped;
  return piece;
}

// After a stop nothing is held and the matcher swallows what comes, so no case needs its own code.
TextStream::Piece TextStream::Finish() {
  Piece piece = stops_.Push(detokenizer_.Flush());
  piece.text += stops_.Flush();
  return piece;
}

}  // namespace decant
