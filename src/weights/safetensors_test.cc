#include "weights/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>

#include "base/testing/sanitized.h"
#include "base/testing/temporary_folder.h"
#include "weights/dequantize.h"
#include "weights/safetensors_header.h"
#include "weights/testing/safetensors_bytes.h"

namespace decant {
namespace {

using testing::SafetensorsBytes;

constexpr const char* kValid = R"({"__metadata__":{"format":"pt"},)"
                               R"("b":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},)"
                               R"("a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                               R"("c":{"dtype":"F16","shape":[],"data_offsets":[32,34]}})";
constexpr size_t kValidData = 34;

class SafetensorsTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::vector<std::byte>& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  void WriteText(const std::string& name, std::string_view text) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << text;
  }

  std::string Refusal() const {
    const std::clock_t before = std::clock();
    const Status status = SafetensorsFiles::Open(folder_).status();
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, kSanitized ? 20 : 1);
    EXPECT_FALSE(status.ok());
    EXPECT_NE(status.message().find(folder_), std::string::npos) << status.message();
    return status.message();
  }

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(SafetensorsTest, GivesTensorsInTheOrderOfTheirData) {
  // The header's length makes all data unaligned.
  static_assert(std::string_view(kValid).size() % 4 != 0);
  Write("model.safetensors", SafetensorsBytes(kValid, kValidData));
  const SafetensorsFiles files = SafetensorsFiles::Open(folder_).value();
  ASSERT_EQ(files.tensors().size(), 3U);
  EXPECT_EQ(files.data_bytes(), 34);
  EXPECT_EQ(files.label(), folder_);
  const TensorInfo& a = files.tensors()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.type, GgmlType::kF32);
  EXPECT_EQ(a.dims, (std::vector<int64_t>{3, 2}));
  EXPECT_EQ(a.offset, 8 + std::string_view(kValid).size());
  EXPECT_EQ(a.data[5], std::byte{5});
  const TensorInfo* b = files.Require("b").value();
  EXPECT_EQ(b->type, GgmlType::kBf16);
  EXPECT_EQ(b->data.size(), 8U);
  EXPECT_EQ(files.Require("c").value()->dims, (std::vector<int64_t>{1}));
  EXPECT_EQ(files.Find("d"), nullptr);
  std::vector<float> values(4);
  ASSERT_TRUE(Dequantize(b->type, b->data, values).ok());
  EXPECT_EQ(values[0], std::bit_cast<float>(0x19180000U));  // bytes 24 and 25
}

TEST_F(SafetensorsTest, ReleasedPagesCanBeReadAgain) {
  constexpr size_t kBytes = 1 << 20;
  Write("model.safetensors",
        SafetensorsBytes(R"({"a":{"dtype":"I8","shape":[1048576],"data_offsets":[0,1048576]}})",
                         kBytes));
  const SafetensorsFiles files = SafetensorsFiles::Open(folder_).value();
  const TensorInfo& a = files.tensors()[0];
  const std::vector<std::byte> before(a.data.begin(), a.data.end());
  files.Release(a.data);
  const std::byte elsewhere{};
  files.Release({&elsewhere, 1});
  EXPECT_TRUE(std::ranges::equal(before, a.data));
}

struct Case {
  const char* name;
  std::string header;
  const char* message;
  size_t data = kValidData;
  std::optional<uint64_t> length{};
};

std::string Tensor(const char* fields) { return fmt::format(R"({{"t":{{{}}}}})", fields); }

std::vector<Case> MalformedHeaders() {
  const std::string big_name(300, 'n');
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  return {
      {"LengthOf2To63", kValid, "at most 16777216 are read", 34, uint64_t{1} << 63},
      {"LengthOf2Gb", kValid, "at most 16777216 are read", 34, uint64_t{1} << 31},
      {"LengthPastTheEnd", kValid, "the file ends inside its header", 0, 4096},
      {"LengthOfZero", "", "not valid JSON", 8},
      {"NotJson", "hello", "not valid JSON at byte"},
      {"CutJson", std::string(kValid).substr(0, 60), "not valid JSON at byte"},
      {"TextAfterTheObject", std::string(kValid) + "x", "not valid JSON at byte"},
      {"NotAnObject", "[]", "its header is a list, not an object"},
      {"JustANumber", "7", "its header is a number, not an object"},
      {"BadUtf8", "{\"\xff\":1}", "not valid JSON"},
      {"DeepNesting", R"({"t":)" + std::string(1 << 20, '['), "t: its description is a list"},
      {"DuplicateName",
       R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
       R"("a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
       "a: the name occurs twice", 2},
      {"EmptyName", R"({"":{}})", "a tensor's name is empty"},
      {"LongName", R"({")" + big_name + R"(":{}})", "a tensor's name has 300 bytes"},
      {"ControlCharacterInName", R"({"a\nb":{}})", "holds a control character"},
      {"MetadataOfNumbers", R"({"__metadata__":{"a":1}})", "__metadata__: a number stands"},
      {"MetadataTwice", R"({"__metadata__":{},"__metadata__":{}})", "__metadata__ occurs twice"},
      {"UnknownDtype", Tensor(R"("dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2])"),
       "t: its dtype is F8_E4M3; supported: F32, F16, BF16", 2},
      {"DtypeIsANumber", Tensor(R"("dtype":3)"), "t: its dtype is a number, not a string"},
      {"NoDtype", Tensor(R"("shape":[2],"data_offsets":[0,8])"), "t: it has no dtype", 8},
      {"NoShape", Tensor(R"("dtype":"F32","data_offsets":[0,8])"), "t: it has no shape", 8},
      {"NoOffsets", Tensor(R"("dtype":"F32","shape":[2])"), "t: it has no data_offsets", 8},
      {"DtypeTwice", Tensor(R"("dtype":"F32","dtype":"F16")"), "t: dtype occurs twice"},
      {"UnknownField", Tensor(R"("dtype":"F32","color":"red")"),
       "t: it has a field that the format does not: color"},
      {"DescriptionIsAString", R"({"t":"F32"})", "t: its description is a string, not an object"},
      {"NegativeDimension", Tensor(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
       "t: its shape holds a negative number"},
      {"ZeroDimension", Tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0])"),
       "t: a dimension of its shape is 0"},
      {"FractionalDimension", Tensor(R"("dtype":"F32","shape":[2.5],"data_offsets":[0,8])"),
       "t: its shape holds the number 2.5"},
      {"DimensionPast2To63", Tensor(R"("dtype":"F32","shape":[9223372036854775808])"),
       "t: 9223372036854775808 is past 2^63"},
      {"DimensionPast2To64", Tensor(R"("dtype":"F32","shape":[99999999999999999999])"),
       "t: its shape holds the number 99999999999999999999"},
      {"NestedShape", Tensor(R"("dtype":"F32","shape":[[2]])"), "t: its shape holds a list"},
      {"ShapeIsANumber", Tensor(R"("dtype":"F32","shape":2)"), "t: its shape holds a number"},
      {"NineDimensions", Tensor(R"("dtype":"F32","shape":[1,1,1,1,1,1,1,1,1])"),
       "t: it has more than 8 dimensions"},
      {"ProductOverflows",
       Tensor(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
       "t: the product of its dimensions overflows"},
      {"OneOffset", Tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
       "t: data_offsets holds 1 numbers, not two"},
      {"ThreeOffsets", Tensor(R"("dtype":"F32","shape":[2],"data_offsets":[0,8,9])"),
       "t: data_offsets holds more than two numbers"},
      {"OffsetsBackwards", Tensor(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       "t: its data end at 0, before they start at 8"},
      {"SizeMismatch", Tensor(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       "t: its shape takes 12 bytes, its data_offsets 8", 8},
      {"PastTheEnd", Tensor(R"("dtype":"F32","shape":[4],"data_offsets":[0,16])"),
       "t: its data reach past the end of the file: bytes 0 to 16 of 8", 8},
      {"OffsetNear2To63",
       Tensor(
           R"("dtype":"I8","shape":[1],"data_offsets":[9223372036854775806,9223372036854775807])"),
       "t: its data reach past the end of the file", 8},
      {"Overlap",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       "b: its data start at 4 and overlap those of another tensor, up to 8", 12},
      {"Gap",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
       "b: its data start at 12, after a gap that starts at 8", 20},
      {"DataAfterTheLast", Tensor(good.c_str()), "4 bytes follow the data of the last tensor", 12},
  };
}

class MalformedSafetensorsTest : public SafetensorsTest,
                                 public ::testing::WithParamInterface<Case> {};

TEST_P(MalformedSafetensorsTest, IsRefusedWithTheReason) {
  const Case& test = GetParam();
  Write("model.safetensors", SafetensorsBytes(test.header, test.data, test.length));
  const std::string message = Refusal();
  EXPECT_NE(message.find("model.safetensors: "), std::string::npos) << message;
  EXPECT_NE(message.find(test.message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedSafetensorsTest, ::testing::ValuesIn(MalformedHeaders()),
                         [](const auto& test) { return test.param.name; });

TEST(TruncatedSafetensorsTest, EveryPrefixIsRefused) {
  const std::vector<std::byte> whole = SafetensorsBytes(kValid, kValidData);
  for (size_t size = 0; size < whole.size(); ++size) {
    const Status status = internal::ParseSafetensors(std::span(whole).first(size)).status();
    ASSERT_FALSE(status.ok()) << size << " bytes of " << whole.size();
    ASSERT_TRUE(status.message().find("the file ends inside") != std::string::npos ||
                status.message().find("reach past the end") != std::string::npos)
        << status.message();
  }
  EXPECT_TRUE(internal::ParseSafetensors(whole).ok());
}

/// Two shards of two tensors each.
class ShardsTest : public SafetensorsTest {
 protected:
  static constexpr const char* kIndex =
      R"({"metadata":{"total_size":16,"x":[{"y":null}]},"weight_map":)"
      R"({"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors","d":"two.safetensors"}})";

  static std::vector<std::byte> Pair(char first, char second) {
    return SafetensorsBytes(
        fmt::format(R"({{"{}":{{"dtype":"F16","shape":[2],"data_offsets":[0,4]}},)"
                    R"("{}":{{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}}})",
                    first, second),
        8);
  }

  void SetUp() override {
    SafetensorsTest::SetUp();
    Write("one.safetensors", Pair('a', 'b'));
    Write("two.safetensors", Pair('c', 'd'));
    WriteText(SafetensorsFiles::kIndexName, kIndex);
  }
};

TEST_F(ShardsTest, AreReadAsOne) {
  const SafetensorsFiles files = SafetensorsFiles::Open(folder_).value();
  EXPECT_EQ(files.files(), 2U);
  EXPECT_EQ(files.tensors().size(), 4U);
  EXPECT_EQ(files.data_bytes(), 16);
  EXPECT_EQ(files.Require("d").value()->data[0], std::byte{4});
}

TEST_F(ShardsTest, BadIndexIsRefusedWithTheReason) {
  const std::string index = kIndex;
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = index;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string c = R"("c":"two.safetensors")";
  const std::pair<std::string, const char*> kCases[] = {
      {"", "not valid JSON"},
      {index.substr(0, 100), "not valid JSON at byte"},
      {"[]", "it is a list, not an object"},
      {"3", "it is a number, not an object"},
      {"{}", "no key weight_map"},
      {R"({"weight_map":["a"]})", "weight_map is a list, not an object"},
      {R"({"weight_map":null})", "weight_map is null, not an object"},
      {R"({"weight_map":{},"weight_map":{}})", "weight_map occurs twice"},
      {with(c, R"("c":2)"), "weight_map.c is a number, not the name of a file"},
      {with(c, R"("c":{"file":"two.safetensors"})"), "weight_map.c is an object, not the name"},
      {with(c, R"("c":["two.safetensors"])"), "weight_map.c is a list, not the name"},
      {with(c, R"("c":"../two.safetensors")"),
       "weight_map.c: the file '../two.safetensors' is not"},
      {with(c, R"("c":"/etc/two.safetensors")"), "weight_map.c: the file '/etc/two.safetensors'"},
      {with(c, R"("c":"sub/two.safetensors")"), "is not the plain name of a .safetensors file"},
      {with(c, R"("c":"two.bin")"), "weight_map.c: the file 'two.bin' is not the plain name"},
      {with(c, R"("c":"two\u0000.safetensors")"), "weight_map.c: the file '(unprintable)'"},
      {with(c, R"("c":"three.safetensors")"), "three.safetensors: cannot open"},
      {with(c, R"("c":"one.safetensors")"),
       "weight_map places c in one.safetensors, which does not"},
      {with(c, R"("d":"two.safetensors")"), "weight_map: d: the name occurs twice"},
      {with(c + ",", ""), "two.safetensors: it holds c, which model.safetensors.index.json does"},
      {with(c, c + R"(,"e":"two.safetensors")"), "weight_map places e in two.safetensors"}};
  for (const auto& [text, message] : kCases) {
    WriteText(SafetensorsFiles::kIndexName, text);
    const std::string refusal = Refusal();
    EXPECT_NE(refusal.find(message), std::string::npos) << refusal << "\n  lacks " << message;
  }
}

TEST_F(ShardsTest, BadShardIsNamed) {
  Write("two.safetensors", SafetensorsBytes("{", 0));
  EXPECT_NE(Refusal().find("two.safetensors: header: not valid JSON"), std::string::npos);
  Write("two.safetensors", Pair('c', 'x'));
  EXPECT_NE(Refusal().find("two.safetensors: it holds x"), std::string::npos);
  std::filesystem::remove(folder_ + "/two.safetensors");
  std::filesystem::create_directory(folder_ + "/two.safetensors");
  EXPECT_NE(Refusal().find("not a regular file but a directory"), std::string::npos);
}

TEST_F(SafetensorsTest, FolderWithoutTensorsSaysWhatWasLookedFor) {
  EXPECT_NE(Refusal().find("neither model.safetensors nor model.safetensors.index.json"),
            std::string::npos);
}

/// The file is as long as it says: sparse, so that it costs no disk.
TEST_F(SafetensorsTest, AHeaderOfTwoGigabytesIsNotRead) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  Write("model.safetensors", SafetensorsBytes("{", 1, uint64_t{2} << 30));
  std::filesystem::resize_file(folder_ + "/model.safetensors", uint64_t{3} << 30);
  EXPECT_NE(Refusal().find("at most 16777216 are read"), std::string::npos);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  constexpr int64_t kKibibytesAllowed = 50 << 10;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kKibibytesAllowed);
}

TEST_F(SafetensorsTest, HugeHeadersCostLittle) {
  rusage before = {};
  getrusage(RUSAGE_SELF, &before);
  std::string many = "{";
  while (many.size() < (size_t{15} << 20)) {
    many += fmt::format(R"("{}":{{"dtype":"I8","shape":[1],"data_offsets":[0,1]}},)", many.size());
  }
  many.back() = '}';
  Write("model.safetensors", SafetensorsBytes(many, 1));
  EXPECT_NE(Refusal().find("it has more than 65536 tensors"), std::string::npos);
  Write("model.safetensors",
        SafetensorsBytes(R"({"__metadata__":{"a":")" + std::string(15 << 20, 'x'), 1));
  EXPECT_NE(Refusal().find("not valid JSON"), std::string::npos);
  rusage after = {};
  getrusage(RUSAGE_SELF, &after);
  constexpr int64_t kKibibytesAllowed = (kSanitized ? 800 : 200) << 10;
  EXPECT_LT(after.ru_maxrss - before.ru_maxrss, kKibibytesAllowed);
}

}  // namespace
}  // namespace decant
