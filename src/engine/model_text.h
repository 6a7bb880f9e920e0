#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "model/model_files.h"
#include "text/chat_prompt.h"
#include "text/tokenizer.h"

namespace decant {

/// The tokenizer that a model's files hold: GGUF metadata, or tokenizer.json with what
/// tokenizer_config.json adds. Errors: a tokenizer that is not supported, by name; what
/// MakeGgufTokenizerData, ReadTokenizerJson and Tokenizer::Create refuse.
Expected<Tokenizer> LoadTokenizer(const ModelFiles& files);

/// The same where only the tokenizer is wanted: `model` may also be a tokenizer.json, or a folder
/// that holds one and nothing else.
Expected<Tokenizer> LoadTokenizer(const std::string& model);

/// A tokenizer of the 256 bytes, for models that have none.
Expected<Tokenizer> ByteTokenizer();

/// What makes prompts of conversations. `template_override`, if not empty, is used in place of the
/// model's own template. Errors: the model has none; what ChatPrompter::Create refuses.
Expected<ChatPrompter> LoadChatPrompter(const ModelFiles& files,
                                        std::shared_ptr<const Tokenizer> tokenizer,
                                        const std::string& template_override = {});

}  // namespace decant
