#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "base/testing/sanitized.h"
#include "base/testing/temporary_folder.h"
#include "weights/gguf.h"
#include "weights/testing/gguf_builder.h"

namespace decant {
namespace {

using testing::GgufBuilder;
using testing::Pack;
using RawTensor = GgufBuilder::RawTensor;

constexpr auto kArray = static_cast<uint32_t>(GgufValueType::kArray);
constexpr auto kString = static_cast<uint32_t>(GgufValueType::kString);
constexpr auto kUint32 = static_cast<uint32_t>(GgufValueType::kUint32);
constexpr auto kUint64 = static_cast<uint32_t>(GgufValueType::kUint64);
constexpr auto kBool = static_cast<uint32_t>(GgufValueType::kBool);
constexpr auto kQ8 = static_cast<uint32_t>(GgmlType::kQ8_0);
constexpr uint64_t kHuge = uint64_t{1} << 63;

GgufBuilder Valid() {
  GgufBuilder builder;
  builder.Set("general.architecture", "llama")
      .Set("llama.block_count", 2u)
      .Set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "bc"})
      .Set("tokenizer.ggml.token_type", std::vector<int32_t>{1, 3})
      .Set("tokenizer.ggml.add_bos_token", false)
      .AddRandomTensor("norm", {8}, GgmlType::kF32, 1)
      .AddRandomTensor("embd", {32, 2}, GgmlType::kQ8_0, 2);
  return builder;
}

RawTensor Raw(std::vector<uint64_t> dims, uint32_t type = 0, size_t bytes = 32) {
  return {.name = "bad",
          .dims = std::move(dims),
          .type = type,
          .data = std::vector<std::byte>(bytes),
          .offset = {},
          .rank = {}};
}

RawTensor RawNamed(std::string name) {
  RawTensor tensor = Raw({8});
  tensor.name = std::move(name);
  return tensor;
}

RawTensor RawAt(uint64_t offset) {
  RawTensor tensor = Raw({8});
  tensor.offset = offset;
  return tensor;
}

RawTensor RawRank(uint32_t rank) {
  RawTensor tensor = Raw({8});
  tensor.rank = rank;
  return tensor;
}

struct Case {
  std::string name;
  std::string message;  ///< What the error must say.
  std::function<void(GgufBuilder&)> spoil;
};

void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

// A value of `type` whose encoding is `value`, under the key "bad".
Case BadValue(std::string name, const std::string& message, uint32_t type,
              const std::vector<std::byte>& value) {
  return {std::move(name), "'bad': " + message,
          [type, value](GgufBuilder& builder) { builder.SetRaw("bad", type, value); }};
}

Case BadTensor(std::string name, std::string message, const RawTensor& tensor) {
  return {std::move(name), std::move(message),
          [tensor](GgufBuilder& builder) { builder.AddRawTensor(tensor); }};
}

Case BadAlignment(std::string name, const std::string& message, const std::vector<std::byte>& value,
                  uint32_t type = kUint32) {
  return {
      std::move(name), "key 'general.alignment' " + message,
      [type, value](GgufBuilder& builder) { builder.SetRaw("general.alignment", type, value); }};
}

std::vector<Case> HeaderCases() {
  return {
      {"WrongMagic", "not a GGUF file", [](GgufBuilder& b) { b.OverrideMagic(0x46554746); }},
      {"OldGgmlMagic", "not a GGUF file", [](GgufBuilder& b) { b.OverrideMagic(0x67676d6c); }},
      {"Version0", "version 0 is not supported", [](GgufBuilder& b) { b.SetVersion(0); }},
      {"Version1", "version 1 is not supported; 2 and 3", [](GgufBuilder& b) { b.SetVersion(1); }},
      {"Version4", "version 4 is not supported", [](GgufBuilder& b) { b.SetVersion(4); }},
      {"BigEndian", "big-endian", [](GgufBuilder& b) { b.SetVersion(0x03000000); }},
      {"HugeKeyCount", "it says 9223372036854775808 keys, but",
       [](GgufBuilder& b) { b.OverrideKeyCount(kHuge); }},
      {"KeyCountOfTwo62", "it says 4611686018427387904 keys, but",
       [](GgufBuilder& b) { b.OverrideKeyCount(kHuge >> 1); }},
      {"AllOnesKeyCount", "it says 18446744073709551615 keys, but",
       [](GgufBuilder& b) { b.OverrideKeyCount(~uint64_t{0}); }},
      {"ProductOverflowingKeyCount", "keys, but",  // times the least size of a key: 2^64 + 12
       [](GgufBuilder& b) { b.OverrideKeyCount(1'317'624'576'693'539'402u); }},
      {"ManyTinyKeys", "70000 keys; at most 65536 are read",
       [](GgufBuilder& b) {
         b.OverrideKeyCount(70'000);
         b.Set("filler", std::string(1'100'000, 'x'));
       }},
      {"OneKeyTooMany", "tensor 1 of 2: its name is empty",
       [](GgufBuilder& b) { b.OverrideKeyCount(6); }},
      {"OneKeyTooFew", "tensor 1 of 2: ", [](GgufBuilder& b) { b.OverrideKeyCount(4); }},
      {"HugeTensorCount", "it says 9223372036854775808 tensors, but",
       [](GgufBuilder& b) { b.OverrideTensorCount(kHuge); }},
      {"ManyTinyTensors", "70000 tensors; at most 65536 are read",
       [](GgufBuilder& b) {
         b.OverrideTensorCount(70'000);
         b.AddTensor("filler", {1'000'000}, GgmlType::kF32, std::vector<float>(1'000'000));
       }},
      {"OneTensorTooMany", "tensor 3 of 3: ", [](GgufBuilder& b) { b.OverrideTensorCount(3); }},
  };
}

std::vector<Case> KeyCases() {
  return {
      {"DuplicateKey", "key 'llama.block_count' is there twice",
       [](GgufBuilder& b) { b.AddDuplicateKey("llama.block_count", kUint32, Pack(uint32_t{9})); }},
      {"EmptyKey", "key 6 of 6: its name is empty",
       [](GgufBuilder& b) { b.SetRaw("", kUint32, Pack(uint32_t{9})); }},
      {"KeyWithControlCharacter", "other than printable ASCII",
       [](GgufBuilder& b) { b.Set("a\x1b[2J", 1); }},
      {"KeyWithSpace", "other than printable ASCII", [](GgufBuilder& b) { b.Set("a b", 1); }},
      {"LongKey", "its name is 70000 bytes long; at most 65535",
       [](GgufBuilder& b) { b.Set(std::string(70'000, 'k'), 1); }},
      BadValue("UnknownValueType", "13 is not a value type", 13, Pack(uint64_t{0})),
      BadValue("HugeValueType", "4294967295 is not a value type", ~0u, Pack(uint64_t{0})),
      BadValue("BoolOfTwo", "a bool is neither 0 nor 1", kBool, Pack(uint8_t{2})),
      BadValue("BoolArrayWithTwo", "a bool is neither 0 nor 1", kArray,
               Pack(kBool, uint64_t{2}, uint8_t{1}, uint8_t{2})),
      BadValue("HugeString", "the file ends inside its string of 9223372036854775808 bytes",
               kString, Pack(kHuge, "abc")),
      BadValue("AllOnesString", "the file ends inside its string of 18446744073709551615 bytes",
               kString, Pack(~uint64_t{0}, "abc")),
      BadValue("StringPastTheEnd", "the file ends inside its string of 1000000 bytes", kString,
               Pack(uint64_t{1'000'000}, "abc")),
      BadValue("ArrayOfArrays", "arrays of arrays are not supported", kArray,
               Pack(kArray, uint64_t{1}, kArray, uint64_t{1}, kUint32, uint64_t{0})),
      BadValue("UnknownElementType", "77 is not an element type", kArray,
               Pack(uint32_t{77}, uint64_t{1}, uint64_t{0})),
      BadValue("HugeArray", "the file ends inside its 9223372036854775808 elements of uint64",
               kArray, Pack(kUint64, kHuge, uint64_t{0})),
      BadValue("OverflowingArray",
               "the file ends inside its 2305843009213693953 elements of uint64", kArray,
               Pack(kUint64, (uint64_t{1} << 61) + 1, uint64_t{0})),
      BadValue("HugeStringArray", "the file ends inside its 2305843009213693953 elements of string",
               kArray, Pack(kString, (uint64_t{1} << 61) + 1, uint64_t{0})),
      BadValue("StringArrayWithHugeElement",
               "the file ends inside its element 1, a string of 9223372036854775808 bytes", kArray,
               Pack(kString, uint64_t{2}, uint64_t{1}, "a", kHuge)),
      BadValue("ArrayPastTheLimit", "it says 4194305 elements; at most 4194304 are read", kArray,
               Pack(kBool, uint64_t{4'194'305}, std::string(4'194'305, '\0'))),
      BadAlignment("AlignmentZero", "is 0; a power of two", Pack(uint32_t{0})),
      BadAlignment("AlignmentThree", "is 3; a power of two", Pack(uint32_t{3})),
      BadAlignment("AlignmentFour", "is 4; a power of two of at least 8", Pack(uint32_t{4})),
      BadAlignment("AlignmentAllOnes", "is 4294967295; a power of two", Pack(~uint32_t{0})),
      BadAlignment("AlignmentOver32Bits", "is not a uint32", Pack(uint64_t{1} << 40), kUint64),
      BadAlignment("AlignmentAsString", "is not a uint32", Pack(uint64_t{2}, "32"), kString),
      {"AlignmentPastTheFile", "reach past the 0 bytes of tensor data",
       [](GgufBuilder& b) { b.SetRaw("general.alignment", kUint32, Pack(uint32_t{1} << 31)); }},
  };
}

std::vector<Case> TensorCases() {
  constexpr uint64_t kTwo32 = uint64_t{1} << 32;
  return {
      BadTensor("DuplicateTensor", "tensor 'norm' is there twice", RawNamed("norm")),
      BadTensor("EmptyTensorName", "tensor 3 of 3: its name is empty", RawNamed("")),
      BadTensor("LongTensorName", "its name is 65 bytes long; at most 64",
                RawNamed(std::string(65, 'n'))),
      BadTensor("TensorNameWithNewline", "other than printable ASCII", RawNamed("a\nb")),
      BadTensor("NoDimensions", "it says 0 dimensions; 1 to 4", RawRank(0)),
      BadTensor("FiveDimensions", "it says 5 dimensions; 1 to 4", Raw({1, 1, 1, 1, 8})),
      BadTensor("AllOnesDimensions", "it says 4294967295 dimensions", RawRank(~0u)),
      BadTensor("ZeroDimension", "dimension 1 is zero", Raw({8, 0})),
      BadTensor("NegativeDimension", "more than 64 bits can count", Raw({~uint64_t{0}})),
      BadTensor("DimensionOfTwo63", "dimension 0 is 9223372036854775808", Raw({kHuge})),
      BadTensor("ProductWrapsToZero", "more than 64 bits can count", Raw({kTwo32, kTwo32})),
      BadTensor("ProductWrapsToSmall", "more than 64 bits can count",
                Raw({kTwo32 + 8, kTwo32, 1, 1})),
      BadTensor("ProductOfFour", "more than 64 bits can count",
                Raw({1 << 16, 1 << 16, 1 << 16, 1 << 16})),
      BadTensor("BytesOverflow", "more bytes than 64 bits can count", Raw({kTwo32, kTwo32 / 4})),
      BadTensor("UnknownTensorType", "'bad': 99 is not a tensor type", Raw({8}, 99)),
      BadTensor("DroppedTensorType", "'bad': 4 is not a tensor type", Raw({32}, 4)),
      BadTensor("PartOfABlock", "its rows of 33 elements are not whole Q8_0 blocks of 32",
                Raw({33}, kQ8, 68)),
      BadTensor("RowIsPartOfABlock", "its rows of 16 elements are not whole Q8_0 blocks",
                Raw({16, 2}, kQ8, 34)),
      BadTensor("UnalignedOffset", "its offset 1 is not a multiple of the alignment 32", RawAt(1)),
      BadTensor("OffsetPastTheEnd", "tensor 'bad': its 32 bytes at offset 1048576 reach past",
                RawAt(1 << 20)),
      BadTensor("OffsetOfTwo63", "reach past", RawAt(kHuge)),
      BadTensor("OffsetThatWraps", "reach past", RawAt(~uint64_t{31})),
      BadTensor("DataCutShort", "its 32 bytes at offset 128 reach past", Raw({8}, 0, 31)),
      BadTensor("SameData", "the data of tensors", RawAt(0)),
      BadTensor("Overlap", "the data of tensors 'embd' and 'bad' overlap", RawAt(96)),
      {"SecondStartsInsideFirst", "the data of tensors 'bad' and 'second' overlap",
       [](GgufBuilder& b) {
         b.AddRawTensor(Raw({16}, 0, 64));
         RawTensor second = RawNamed("second");
         second.dims = {16};
         second.data.resize(64);
         second.offset = 160;
         b.AddRawTensor(second);
       }},
  };
}

std::vector<Case> AllCases() {
  std::vector<Case> cases = HeaderCases();
  for (const auto& more : {KeyCases(), TensorCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

class MalformedGgufTest : public ::testing::TestWithParam<Case> {};

TEST_P(MalformedGgufTest, IsRefusedWithTheReason) {
  GgufBuilder builder = Valid();
  ASSERT_TRUE(GgufFile::FromBytes("valid", builder.Build()).ok());
  GetParam().spoil(builder);
  const Status status = GgufFile::FromBytes("bad.gguf", builder.Build()).status();
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(status.message().starts_with("bad.gguf: ")) << status.message();
  EXPECT_NE(status.message().find(GetParam().message), std::string::npos) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedGgufTest, ::testing::ValuesIn(AllCases()),
                         [](const auto& test) { return test.param.name; });

TEST(TruncatedGgufTest, EveryPrefixIsRefused) {
  const std::vector<std::byte> whole = Valid().Build();
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status =
        GgufFile::FromBytes("cut", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)})
            .status();
    ASSERT_FALSE(status.ok()) << size << " bytes of " << whole.size();
    const std::string& message = status.message();
    ASSERT_TRUE(message.find("the file ends inside") != std::string::npos ||
                message.find("can hold no more than") != std::string::npos ||
                message.find("reach past the") != std::string::npos)
        << message;
  }
  EXPECT_TRUE(GgufFile::FromBytes("whole", whole).ok());
}

TEST(TruncatedGgufTest, SaysWhereTheFileEnds) {
  const std::vector<std::byte> whole = Valid().Build();
  const auto refuse = [&](size_t size) {
    return GgufFile::FromBytes("cut", {whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size)})
        .status()
        .message();
  };
  EXPECT_EQ(refuse(0), "cut: the file ends inside the magic: 0 bytes are left at byte 0");
  EXPECT_EQ(refuse(6), "cut: the file ends inside the version: 2 bytes are left at byte 4");
  EXPECT_EQ(refuse(12),
            "cut: the file ends inside the number of tensors: 4 bytes are left at byte 8");
  EXPECT_EQ(refuse(20),
            "cut: the file ends inside the number of keys: 4 bytes are left at byte 16");
  EXPECT_EQ(refuse(24), "cut: it says 5 keys, but the 0 bytes left can hold no more than 0");
}

// A sparse file of 8 GiB: it costs no disk, and whatever it says, not much time or memory.
class HugeGgufTest : public ::testing::Test {
 protected:
  struct Piece {
    uint64_t offset;
    std::vector<std::byte> bytes;
  };

  // Opens the file that has these pieces, and zeros everywhere else.
  std::string Refusal(const std::vector<Piece>& pieces) {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    for (const Piece& piece : pieces) {
      file.seekp(static_cast<std::streamoff>(piece.offset));
      file.write(reinterpret_cast<const char*>(piece.bytes.data()),
                 static_cast<std::streamsize>(piece.bytes.size()));
    }
    file.close();
    std::filesystem::resize_file(path_, uint64_t{8} << 30);
    const std::clock_t before = std::clock();
    const Status status = GgufFile::Open(path_).status();
    const double seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, kSanitized ? 20 : 1);
    return status.message();
  }

  static std::vector<std::byte> Header(uint64_t tensors, uint64_t keys) {
    return Pack(uint32_t{0x46554747}, uint32_t{3}, tensors, keys);
  }

  const TemporaryFolder temporary_;
  const std::string path_ = temporary_ / "huge.gguf";
};

TEST_F(HugeGgufTest, CostsLittleWhateverItSays) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);

  // Keys, each an array of 4 Mi strings that the zeros make empty: 32 MiB a key.
  const auto arrays = [](uint64_t keys) {
    std::vector<Piece> pieces = {{0, Header(0, keys)}};
    uint64_t offset = pieces[0].bytes.size();
    for (uint64_t i = 0; i < keys; ++i) {
      pieces.push_back({offset, Pack(uint64_t{1}, static_cast<char>('a' + i), kArray, kString,
                                     uint64_t{4} << 20)});
      offset += pieces.back().bytes.size() + (uint64_t{32} << 20);
    }
    return pieces;
  };
  EXPECT_EQ(Refusal(arrays(3)), "");  // odd, but whole
  EXPECT_NE(Refusal(arrays(5)).find("the most that is read"), std::string::npos);
  EXPECT_NE(Refusal({{0, Header(60'000, 60'000)}}).find("its name is empty"), std::string::npos);
  EXPECT_NE(Refusal({{0, Header(0, 1 << 20)}}).find("at most 65536"), std::string::npos);

  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  constexpr int64_t kKibibytesAllowed = 200 << 10;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kKibibytesAllowed);
}

}  // namespace
}  // namespace decant
