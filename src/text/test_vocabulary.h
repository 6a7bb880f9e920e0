#pragma once

#include <string>

#include "text/tokenizer.h"

namespace decant {

/// The TokenizerData of tests/data/tokenizer/NAME.vocab.json.gz ("smollm2", "qwen2.5"); aborts if
/// it cannot be read. For tests.
TokenizerData ReadTestVocabulary(const std::string& name);

/// Its tokenizer.
Tokenizer MakeTestTokenizer(const std::string& name);

/// The contents of a compressed file under tests/data; aborts if it cannot be read.
std::string ReadTestGz(const std::string& name);

/// A small vocabulary: one token for each of the 256 bytes (ids 0 to 255, by byte), then what
/// `merges` ("left right", in byte symbols) make. For tests.
TokenizerData MakeByteVocabulary(const std::vector<std::string>& merges);

}  // namespace decant
