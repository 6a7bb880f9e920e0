#pragma once

#include <vector>

#include "server/completion_request.h"

namespace decant {

inline constexpr size_t kMaxPrompts = 256;  ///< In one request.

/// The token ids in `list`, which stands at `place`: "prompt[1]". What is no id of the vocabulary
/// is an error.
std::vector<Token> ReadTokenIds(const ApiModel& model, std::string_view place, const Json& list,
                                ParameterReader& reader);

/// The prompts of a request for completions: a string, token ids, or a list of either. Those that
/// came as token ids have no text.
std::vector<CallPrompt> ReadPrompts(const ApiModel& model, bool add_special,
                                    ParameterReader& reader);

}  // namespace decant
