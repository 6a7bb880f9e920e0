#pragma once

#include <string_view>

#include "base/status.h"
#include "text/tokenizer_data.h"

namespace decant {

/// The data of a tokenizer.json, the format of the Python `tokenizers` library (version "1.0"),
/// with model BPE. What the library does decides: of keys and merges that occur twice the last
/// counts; an added token that the model does not have gets the id after the vocabulary, whatever
/// it declares. bos is set, with add_bos, where the post-processor puts one token before a text;
/// eos is not: the format does not say. Truncation and padding are left to the caller of a model.
///
/// DataLoss names file, section and fault; kUnimplemented names file, section and a type, option or
/// pattern that is not supported. Memory stays in proportion to the text, which is read once.
Expected<TokenizerData> ReadTokenizerJson(std::string_view json, std::string_view file_name);

}  // namespace decant
