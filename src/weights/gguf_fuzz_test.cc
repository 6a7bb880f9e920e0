#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "weights/dequantize.h"
#include "weights/gguf.h"
#include "weights/testing/gguf_builder.h"

namespace decant {
namespace {

using testing::GgufBuilder;

GgufBuilder Seed() {
  GgufBuilder builder;
  builder.Set("general.architecture", "llama")
      .Set("u8", uint8_t{1})
      .Set("i16", int16_t{-2})
      .Set("u32", 3u)
      .Set("i64", int64_t{-4})
      .Set("f32", 0.5f)
      .Set("f64", 0.25)
      .Set("flag", true)
      .Set("texts", std::vector<std::string>{"a", "bc", ""})
      .Set("ints", std::vector<int32_t>{1, -2, 3})
      .Set("floats", std::vector<float>{1.0f, 2.0f})
      .Set("flags", std::vector<bool>{true, false})
      .SetAlignment(32)
      .AddRandomTensor("a", {8}, GgmlType::kF32, 1)
      .AddRandomTensor("b", {8, 2}, GgmlType::kF16, 2)
      .AddRandomTensor("c", {32, 1, 2}, GgmlType::kQ8_0, 3)
      .AddRandomTensor("d", {32}, GgmlType::kQ4_1, 4);
  return builder;
}

// Numbers drawn in order, so that a failing mutation can be run again by its number.
class Draw {
 public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  uint64_t Below(uint64_t bound) { return random_.Below(next_++, bound); }
  uint64_t Bits() { return random_.Bits(next_++); }

 private:
  CounterRng random_;
  uint64_t next_ = 0;
};

void OverwriteNumber(std::vector<std::byte>& bytes, size_t position, size_t width, Draw& draw) {
  constexpr std::array<uint64_t, 12> kNumbers = {
      0,          1,    4, 8, 9, 0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, (1ull << 63) - 1,
      1ull << 63, ~0ull};
  const uint64_t value = draw.Below(4) == 0 ? draw.Bits() : kNumbers[draw.Below(kNumbers.size())];
  if (position + width <= bytes.size()) std::memcpy(bytes.data() + position, &value, width);
}

void Mutate(std::vector<std::byte>& bytes, const std::vector<size_t>& fields, Draw& draw) {
  const auto at = [&](uint64_t index) { return bytes.begin() + static_cast<ptrdiff_t>(index); };
  switch (draw.Below(6)) {
    case 0:  // flip a bit
      bytes[draw.Below(bytes.size())] ^= static_cast<std::byte>(1u << draw.Below(8));
      break;
    case 1:  // set a byte
      bytes[draw.Below(bytes.size())] = static_cast<std::byte>(draw.Bits());
      break;
    case 2:  // a telling number in place of a field
      OverwriteNumber(bytes, fields[draw.Below(fields.size())], draw.Below(2) == 0 ? 4 : 8, draw);
      break;
    case 3:  // cut the end off
      bytes.resize(1 + draw.Below(bytes.size()));
      break;
    case 4: {  // take some bytes out
      const uint64_t first = draw.Below(bytes.size());
      const uint64_t count = draw.Below(std::min<uint64_t>(bytes.size() - first, 40));
      bytes.erase(at(first), at(first + count));
      break;
    }
    case 5: {  // put some bytes in twice
      const uint64_t first = draw.Below(bytes.size());
      const uint64_t count = draw.Below(std::min<uint64_t>(bytes.size() - first, 40));
      const std::vector<std::byte> copy(at(first), at(first + count));
      bytes.insert(at(draw.Below(bytes.size())), copy.begin(), copy.end());
      break;
    }
  }
}

// Uses every part of a file that was accepted, so that a sanitizer sees each byte it points at.
void UseEverything(const GgufFile& file) {
  for (const GgufEntry& entry : file.metadata().entries()) {
    ASSERT_FALSE(DescribeValue(entry, 1 << 20).empty());
    const GgufMetadata& metadata = file.metadata();
    ASSERT_EQ(metadata.Find(entry.key), &entry);
    const int taken = static_cast<int>(metadata.GetI64(entry.key).ok()) +
                      static_cast<int>(metadata.GetU64(entry.key).ok()) +
                      static_cast<int>(metadata.GetF32(entry.key).ok()) +
                      static_cast<int>(metadata.GetBool(entry.key).ok()) +
                      static_cast<int>(metadata.GetString(entry.key).ok()) +
                      static_cast<int>(metadata.GetI32Array(entry.key).ok()) +
                      static_cast<int>(metadata.GetF32Array(entry.key).ok()) +
                      static_cast<int>(metadata.GetBoolArray(entry.key).ok()) +
                      static_cast<int>(metadata.GetStringArray(entry.key).ok());
    ASSERT_LE(taken, 3) << entry.key;  // at most I64, U64 and (an empty array) none besides
  }
  uint64_t tensor_bytes = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    tensor_bytes += tensor.data.size();
    ASSERT_EQ(file.Find(tensor.name), &tensor);
    if (!CanDequantize(tensor.type)) continue;
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    ASSERT_TRUE(Dequantize(tensor.type, tensor.data, values).ok());
  }
  ASSERT_LT(tensor_bytes, file.file_size());
}

TEST(GgufFuzzTest, NeverCrashesOnMutatedFiles) {
  const GgufBuilder seed = Seed();
  const std::vector<std::byte> valid = seed.Build();
  const std::vector<size_t> fields = seed.FieldStarts();
  constexpr int kMutations = 30'000;
  int accepted = 0;
  for (int i = 0; i < kMutations; ++i) {
    SCOPED_TRACE("mutation " + std::to_string(i));
    Draw draw(static_cast<uint64_t>(i));
    std::vector<std::byte> bytes = valid;
    for (uint64_t changes = 1 + draw.Below(3); changes > 0; --changes) Mutate(bytes, fields, draw);
    const Expected<GgufFile> file = GgufFile::FromBytes("fuzz", std::move(bytes));
    if (file.ok()) {
      ++accepted;
      ASSERT_NO_FATAL_FAILURE(UseEverything(*file));
    } else {
      ASSERT_TRUE(file.status().message().starts_with("fuzz: "));
    }
  }
  // Both outcomes are exercised: many mutations touch only data or values, many break the
  // structure.
  EXPECT_GT(accepted, kMutations / 50);
  EXPECT_LT(accepted, kMutations * 3 / 4);
}

}  // namespace
}  // namespace decant
