#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/engine.h"

namespace decant {

/// What became of a request whose text was shown while it came.
struct StreamedAnswer {
  std::string text{};
  FinishReason finish = FinishReason::kCancelled;
  Status status{};
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
  double first_seconds = 0;  ///< From the submission to the first token.
  double rest_seconds = 0;   ///< From there to the last.
};

/// Submits a request of one sample, whose sink must be empty, writes its text to standard output as
/// it comes, ends it with a line break, and waits for the end; an interrupt cancels it. Errors:
/// Engine::Submit's.
Expected<StreamedAnswer> StreamAnswer(Engine& engine, GenerateRequest request);

/// "[end of text; prompt: 12 tokens in …; generated: …]"
std::string DescribeAnswer(const StreamedAnswer& answer);

}  // namespace decant
