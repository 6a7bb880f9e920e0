#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/api_model.h"
#include "server/http_exchange.h"
#include "server/parameter_reader.h"

namespace decant {

// The parameters that these requests may have.
std::span<const std::string_view> TokenizeParameterNames();
std::span<const std::string_view> DetokenizeParameterNames();

/// POST /tokenize: {"prompt"} or {"messages"} to {"count", "max_model_len", "tokens",
/// "token_strs"}. A parameter that is wrong is the reader's error.
std::string Tokenize(const ApiModel& model, ParameterReader& reader);

/// POST /detokenize: {"tokens"} to {"prompt"}, with control tokens by their names.
std::string Detokenize(const ApiModel& model, ParameterReader& reader);

}  // namespace decant
