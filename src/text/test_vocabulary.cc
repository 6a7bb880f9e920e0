#include "text/test_vocabulary.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "text/byte_symbols.h"
#include "text/utf8.h"

namespace decant {
namespace {

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

void AddToken(TokenizerData& data, std::string spelling, TokenType type) {
  data.tokens.push_back(std::move(spelling));
  data.types.push_back(type);
}

void AddAdded(TokenizerData& data, const nlohmann::json& tokens) {
  for (const auto& token : tokens) {
    AddToken(data, token[0].get<std::string>(),
             token[1] == "control" ? TokenType::kControl : TokenType::kUserDefined);
  }
}

}  // namespace

std::string ReadTestGz(const std::string& name) {
  const std::string path = fmt::format("{}/{}", DECANT_TEST_DATA, name);
  const std::unique_ptr<gzFile_s, CloseGz> file(gzopen(path.c_str(), "rb"));
  DECANT_CHECK(file != nullptr, "cannot open {}", path);
  std::string data;
  std::vector<char> buffer(size_t{1} << 16);
  int count = 0;
  while ((count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    data.append(buffer.data(), static_cast<size_t>(count));
  }
  DECANT_CHECK(count == 0, "cannot read {}", path);
  return data;
}

TokenizerData ReadTestVocabulary(const std::string& name) {
  const nlohmann::json file =
      nlohmann::json::parse(ReadTestGz(fmt::format("tokenizer/{}.vocab.json.gz", name)));
  TokenizerData data;
  data.pre_tokenizer = PreTokenizerFromName(file["pre_tokenizer"].get<std::string>()).value();
  AddAdded(data, file["before"]);
  for (const auto& symbol : file["symbols"]) {
    AddToken(data, symbol.get<std::string>(), TokenType::kNormal);
  }
  const auto merges = file["merges"].get<std::vector<size_t>>();
  for (size_t i = 0; i < merges.size(); i += 2) {
    const std::string left = data.tokens.at(merges[i]);
    const std::string right = data.tokens.at(merges[i + 1]);
    data.merges.push_back(fmt::format("{} {}", left, right));
    AddToken(data, left + right, TokenType::kNormal);
  }
  AddAdded(data, file["after"]);
  const auto end = std::find(data.tokens.begin(), data.tokens.end(), "<|im_end|>");
  data.eos = {static_cast<int32_t>(end - data.tokens.begin())};
  return data;
}

Tokenizer MakeTestTokenizer(const std::string& name) {
  return Tokenizer::Create(ReadTestVocabulary(name)).value();
}

TokenizerData MakeByteVocabulary(const std::vector<std::string>& merges) {
  TokenizerData data;
  for (int byte = 0; byte < 256; ++byte) {
    std::string spelling;
    AppendUtf8(SymbolOfByte(static_cast<uint8_t>(byte)), spelling);
    AddToken(data, spelling, TokenType::kNormal);
  }
  for (const std::string& merge : merges) {
    std::string joined = merge;
    std::erase(joined, ' ');
    data.merges.push_back(merge);
    AddToken(data, joined, TokenType::kNormal);
  }
  return data;
}

}  // namespace decant
