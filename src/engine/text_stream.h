#pragma once

#include <string_view>

#include "sched/step_plan.h"
#include "text/detokenizer.h"
#include "text/stop_matcher.h"
#include "text/tokenizer.h"

namespace decant {

/// One request's tokens on their way to text: what comes out is whole code points and ends before
/// the first stop string, however its characters are spread over tokens.
class TextStream {
 public:
  using Piece = StopMatcher::Result;

  /// `tokenizer` must outlive the stream.
  TextStream(const Tokenizer& tokenizer, StopMatcher stops);

  /// Adds a token; returns the text that is certain by now, maybe none, and whether a stop string
  /// has come.
  Piece Push(Token token);

  /// Adds the last token.
  Piece PushLast(Token token);

  /// What was held back, where no token follows.
  Piece Finish();

 private:
  Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace decant
