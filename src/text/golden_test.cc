// The tokenizer against the ids and texts of the Python `tokenizers` library, as stored in
// tests/data/tokenizer.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "text/detokenizer.h"
#include "text/test_vocabulary.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace decant {
namespace {

using Ids = std::vector<int32_t>;

struct CloseGz {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

/// The lines of a compressed file, one at a time.
class GzLines {
 public:
  explicit GzLines(const std::string& name)
      : file_(gzopen(fmt::format("{}/tokenizer/{}", DECANT_TEST_DATA, name).c_str(), "rb")) {
    DECANT_CHECK(file_ != nullptr, "cannot open {}", name);
  }

  bool Next(nlohmann::json& line) {
    std::string text;
    std::array<char, 4096> buffer{};
    while (!text.ends_with('\n')) {
      if (gzgets(file_.get(), buffer.data(), buffer.size()) == nullptr) {
        DECANT_CHECK(gzeof(file_.get()) == 1 && text.empty(), "a compressed file is cut short");
        return false;
      }
      text += buffer.data();
    }
    line = nlohmann::json::parse(text);
    return true;
  }

 private:
  std::unique_ptr<gzFile_s, CloseGz> file_;
};

std::vector<nlohmann::json> ReadDecoded(const std::string& model) {
  std::vector<nlohmann::json> lines;
  GzLines file("decoded.jsonl.gz");
  for (nlohmann::json line; file.Next(line);) {
    if (line["model"] == model) lines.push_back(line);
  }
  return lines;
}

/// The text of a line of the corpus: "text", or "bytes" in hexadecimal where it is not UTF-8.
std::string TextOf(const nlohmann::json& line) {
  if (line.contains("text")) return line["text"].get<std::string>();
  const std::string hex = line["bytes"].get<std::string>();
  std::string text;
  for (size_t i = 0; i < hex.size(); i += 2) {
    text.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return text;
}

/// 32-bit FNV-1a (http://www.isthe.com/chongo/tech/comp/fnv/) of the ids, each as four bytes, the
/// lowest first.
uint32_t Fnv1a(const Ids& ids) {
  uint32_t hash = 0x811C9DC5;
  for (const int32_t id : ids) {
    for (int shift = 0; shift < 32; shift += 8) {
      hash = (hash ^ (static_cast<uint32_t>(id) >> shift & 0xFF)) * 0x01000193;
    }
  }
  return hash;
}

/// Whether `ids` are those that the line has for `model`, in full or as their hash.
::testing::AssertionResult Agrees(const nlohmann::json& expected, const Ids& ids) {
  if (expected.is_array() ? expected.get<Ids>() == ids
                          : expected == fmt::format("{:08x}", Fnv1a(ids))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << fmt::format("ids [{}], hash {:08x}", fmt::join(ids, ", "), Fnv1a(ids));
}

class GoldenTest : public ::testing::TestWithParam<const char*> {
 protected:
  const Tokenizer tokenizer_ = MakeTestTokenizer(GetParam());
};

std::string SuiteName(const ::testing::TestParamInfo<const char*>& model) {
  return std::string(model.param) == "smollm2" ? "SmolLm2" : "Qwen2";
}
INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::Values("smollm2", "qwen2.5"), SuiteName);

TEST_P(GoldenTest, EncodesAsTheReference) {
  const std::string model = GetParam();
  int count = 0;
  int parsed = 0;
  int in_full = 0;
  int ill_formed = 0;
  GzLines corpus("corpus.jsonl.gz");
  for (nlohmann::json line; corpus.Next(line);) {
    const bool parse = line.contains("parse");
    count += parse ? 0 : 1;
    parsed += parse ? 1 : 0;
    in_full += line[model].is_array() ? 1 : 0;
    ill_formed += line.contains("bytes") ? 1 : 0;
    const std::string text = TextOf(line);
    const Ids ids = tokenizer_.Encode(text, parse ? SpecialTokens::kParse : SpecialTokens::kAsText);
    ASSERT_TRUE(Agrees(line[model], ids)) << line.dump();
    const std::string decoded_key = model + " decoded";
    const std::string decoded =
        line.contains(decoded_key) ? line[decoded_key].get<std::string>() : RepairUtf8(text);
    ASSERT_EQ(tokenizer_.Decode(ids, ControlTokens::kShow), decoded) << line.dump();
  }
  EXPECT_GE(count, 20000);
  EXPECT_GE(parsed, 2000);
  EXPECT_GE(in_full, 4000);
  EXPECT_GE(ill_formed, 1000);
}

TEST_P(GoldenTest, DecodesAsTheReference) {
  const std::vector<nlohmann::json> lines = ReadDecoded(GetParam());
  EXPECT_EQ(lines.size(), 400U);
  for (const nlohmann::json& line : lines) {
    const Ids ids = line["ids"].get<Ids>();
    ASSERT_EQ(tokenizer_.Decode(ids, ControlTokens::kShow), line["shown"]) << line.dump();
    ASSERT_EQ(tokenizer_.Decode(ids, ControlTokens::kHide), line["hidden"]) << line.dump();
  }
}

TEST_P(GoldenTest, StreamsWhatItDecodes) {
  for (const nlohmann::json& line : ReadDecoded(GetParam())) {
    Detokenizer detokenizer(tokenizer_, ControlTokens::kHide);
    std::string text;
    for (const int32_t id : line["ids"].get<Ids>()) text += detokenizer.Push(id);
    text += detokenizer.Flush();
    ASSERT_EQ(text, line["hidden"]) << line.dump();
  }
}

}  // namespace
}  // namespace decant
