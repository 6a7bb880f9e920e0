#include "weights/gguf.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/testing/temporary_folder.h"
#include "weights/dequantize.h"
#include "weights/testing/gguf_builder.h"

namespace decant {
namespace {

using testing::GgufBuilder;

GgufFile Read(const GgufBuilder& builder) {
  Expected<GgufFile> file = GgufFile::FromBytes("test.gguf", builder.Build());
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  return std::move(file).value();
}

std::vector<float> Counting(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

std::vector<float> Decode(const TensorInfo& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(Dequantize(tensor.type, tensor.data, values).ok());
  return values;
}

TEST(GgufFileTest, ReadsTensorsOfEveryKind) {
  GgufBuilder builder;
  builder.Set("general.architecture", "llama")
      .AddTensor("b", {4, 3}, GgmlType::kF32, Counting(12))
      .AddTensor("a", {8}, GgmlType::kF16, Counting(8))
      .AddTensor("c", {32, 2, 1, 1}, GgmlType::kQ8_0, Counting(64));
  const GgufFile file = Read(builder);

  EXPECT_EQ(file.path(), "test.gguf");
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  EXPECT_EQ(file.file_size(), builder.Build().size());
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors()[0].name, "b");

  const TensorInfo* tensor = file.Find("b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->dims, (std::vector<int64_t>{4, 3}));
  EXPECT_EQ(tensor->rows(), 3);
  EXPECT_EQ(tensor->row_length(), 4);
  EXPECT_EQ(tensor->offset % 32, 0u);
  EXPECT_EQ(Decode(*tensor), Counting(12));
  EXPECT_EQ(Decode(*file.Require("a").value()), Counting(8));
  EXPECT_EQ(file.Find("c")->data.size(), 2u * 34u);
  EXPECT_EQ(file.Find("c")->dims.size(), 4u);

  EXPECT_EQ(file.Find("d"), nullptr);
  const Status missing = file.Require("d").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.message(), "test.gguf: no tensor 'd'");
}

TEST(GgufFileTest, ViewsLiveOnWhenTheFileMoves) {
  const TemporaryFolder temporary;
  const std::string path = temporary / "test.gguf";
  GgufBuilder()
      .Set("general.name", "tiny")
      .AddTensor("x", {4}, GgmlType::kF32, Counting(4))
      .WriteTo(path);
  GgufFile first = GgufFile::Open(path).value();
  std::filesystem::remove(path);
  const std::string_view name = first.metadata().GetString("general.name").value();
  const TensorInfo* tensor = first.Find("x");
  const GgufFile second = std::move(first);
  second.Prefetch();
  EXPECT_EQ(name, "tiny");
  EXPECT_EQ(second.Find("x"), tensor);
  EXPECT_EQ(Decode(*tensor), Counting(4));
}

TEST(GgufFileTest, TakesVersion2OtherAlignmentsAndFilesWithoutTensors) {
  GgufBuilder builder;
  builder.SetVersion(2).SetAlignment(256).AddTensor("x", {3}, GgmlType::kF32, Counting(3));
  builder.AddTensor("y", {3}, GgmlType::kF32, Counting(3));
  const GgufFile file = Read(builder);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.alignment(), 256u);
  EXPECT_EQ(file.Find("y")->offset, file.Find("x")->offset + 256);
  EXPECT_EQ(Decode(*file.Find("y")), Counting(3));

  EXPECT_TRUE(Read(GgufBuilder().Set("only", "metadata")).tensors().empty());
  EXPECT_TRUE(Read(GgufBuilder()).metadata().entries().empty());
}

TEST(GgufFileTest, NamesAFileThatIsNotThere) {
  const Status status = GgufFile::Open("/nonexistent/model.gguf").status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("/nonexistent/model.gguf"), std::string::npos);
}

TEST(GgufMetadataTest, TakesIntegersOfAnyWidthThatFit) {
  GgufBuilder builder;
  builder.Set("u8", uint8_t{200})
      .Set("i8", int8_t{-3})
      .Set("u16", uint16_t{40'000})
      .Set("i16", int16_t{-300})
      .Set("u32", 4'000'000'000u)
      .Set("i32", -5)
      .Set("u64", std::numeric_limits<uint64_t>::max())
      .Set("i64", std::numeric_limits<int64_t>::min());
  const GgufFile file = Read(builder);
  const GgufMetadata& metadata = file.metadata();

  EXPECT_EQ(metadata.GetU32("u8").value(), 200u);
  EXPECT_EQ(metadata.GetI32("i8").value(), -3);
  EXPECT_EQ(metadata.GetI32("u16").value(), 40'000);
  EXPECT_EQ(metadata.GetI64("i16").value(), -300);
  EXPECT_EQ(metadata.GetU32("u32").value(), 4'000'000'000u);
  EXPECT_EQ(metadata.GetU64("u64").value(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(metadata.GetI64("i64").value(), std::numeric_limits<int64_t>::min());

  EXPECT_EQ(metadata.GetU32("i32").status().message(),
            "test.gguf: key 'i32' is -5, outside 0 to 4294967295");
  EXPECT_EQ(metadata.GetI32("u32").status().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(metadata.GetI64("u64").ok());
  EXPECT_FALSE(metadata.GetU64("i8").ok());
}

TEST(GgufMetadataTest, SaysMissingAndWrongTypeApart) {
  GgufBuilder builder;
  builder.Set("name", "tiny").Set("eps", 1e-5f).Set("base", 1e6).Set("flag", true).Set("n", 7u);
  builder.Set("texts", std::vector<std::string>{"a"});
  const GgufFile file = Read(builder);
  const GgufMetadata& metadata = file.metadata();

  EXPECT_EQ(metadata.GetString("name").value(), "tiny");
  EXPECT_EQ(metadata.GetF32("eps").value(), 1e-5f);
  EXPECT_EQ(metadata.GetF32("base").value(), 1e6f);
  EXPECT_TRUE(metadata.GetBool("flag").value());

  EXPECT_EQ(metadata.GetU32("none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(metadata.GetU32("none").status().message(), "test.gguf: no key 'none'");
  EXPECT_EQ(metadata.GetU32("name").status().message(),
            "test.gguf: key 'name' is string, not an integer");
  EXPECT_EQ(metadata.GetString("texts").status().message(),
            "test.gguf: key 'texts' is array of string, not a string");
  EXPECT_EQ(metadata.GetI32Array("texts").status().message(),
            "test.gguf: key 'texts' is array of string, not an array of integers");
  EXPECT_EQ(metadata.GetStringArray("name").status().message(),
            "test.gguf: key 'name' is string, not an array of strings");
  EXPECT_FALSE(metadata.GetF32("n").ok());
  EXPECT_FALSE(metadata.GetBool("n").ok());
  EXPECT_FALSE(metadata.GetU32("flag").ok());

  EXPECT_EQ(metadata.GetU32Or("none", 3).value(), 3u);
  EXPECT_EQ(metadata.GetU32Or("n", 3).value(), 7u);
  EXPECT_EQ(metadata.GetI32Or("none", -1).value(), -1);
  EXPECT_EQ(metadata.GetF32Or("none", 0.5f).value(), 0.5f);
  EXPECT_EQ(metadata.GetStringOr("none", "x").value(), "x");
  EXPECT_FALSE(metadata.GetBoolOr("none", false).value());
  EXPECT_FALSE(metadata.GetU32Or("name", 3).ok());
}

TEST(GgufMetadataTest, ReadsArrays) {
  const std::string with_nul("a\0b", 3);
  GgufBuilder builder;
  builder.Set("texts", std::vector<std::string>{"", "two", with_nul})
      .Set("ints", std::vector<int32_t>{-1, 2, 3})
      .Set("bytes", std::vector<uint8_t>{1, 255})
      .Set("floats", std::vector<float>{0.5f, -2.0f})
      .Set("doubles", std::vector<double>{0.25})
      .Set("flags", std::vector<bool>{true, false, true})
      .Set("empty", std::vector<std::string>{});
  const GgufFile file = Read(builder);
  const GgufMetadata& metadata = file.metadata();

  EXPECT_EQ(metadata.GetStringArray("texts").value(),
            (std::vector<std::string_view>{"", "two", with_nul}));
  EXPECT_EQ(metadata.GetI32Array("ints").value(), (std::vector<int32_t>{-1, 2, 3}));
  EXPECT_EQ(metadata.GetI32Array("bytes").value(), (std::vector<int32_t>{1, 255}));
  EXPECT_EQ(metadata.GetF32Array("floats").value(), (std::vector<float>{0.5f, -2.0f}));
  EXPECT_EQ(metadata.GetF32Array("doubles").value(), std::vector<float>{0.25f});
  EXPECT_EQ(metadata.GetBoolArray("flags").value(), (std::vector<bool>{true, false, true}));
  EXPECT_TRUE(metadata.GetStringArray("empty").value().empty());
  EXPECT_EQ(metadata.GetU32Array("ints").status().message(),
            "test.gguf: element 0 of key 'ints' is outside 0 to 4294967295");
}

TEST(GgufMetadataTest, DescribesValuesForAPerson) {
  GgufBuilder builder;
  builder.Set("int", int8_t{-5})
      .Set("float", 0.5f)
      .Set("flag", true)
      .Set("text", "a \"b\"\n\x01")
      .Set("long", std::string(500, 'x'))
      .Set("texts", std::vector<std::string>{"a", "b"})
      .Set("many", std::vector<int32_t>(1000, 7));
  const GgufFile file = Read(builder);
  const auto describe = [&](std::string_view key) {
    return DescribeValue(*file.metadata().Find(key), 40);
  };
  EXPECT_EQ(describe("int"), "-5");
  EXPECT_EQ(describe("float"), "0.5");
  EXPECT_EQ(describe("flag"), "true");
  EXPECT_EQ(describe("text"), R"("a \"b\"\n\x01")");
  EXPECT_EQ(describe("texts"), R"([string x 2] "a", "b")");
  EXPECT_EQ(describe("long"), '"' + std::string(40, 'x') + "...");
  EXPECT_EQ(describe("many"), "[int32 x 1000] 7, 7, 7, 7, 7, 7, 7, 7, 7, ...");
  EXPECT_EQ(file.metadata().entries()[0].key, "int");
}

}  // namespace
}  // namespace decant
