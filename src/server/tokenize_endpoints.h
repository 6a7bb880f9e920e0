#pragma once

#include "server/api_model.h"
#include "server/http_exchange.h"
#include "server/parameter_reader.h"

namespace decant {

/// POST /tokenize: {"prompt"} or {"messages"} to {"count", "max_model_len", "tokens",
/// "token_strs"}. A parameter that is wrong is the reader's error.
std::string Tokenize(const ApiModel& model, ParameterReader& reader);

/// POST /detokenize: {"tokens"} to {"prompt"}, with control tokens by their names.
std::string Detokenize(const ApiModel& model, ParameterReader& reader);

}  // namespace decant
