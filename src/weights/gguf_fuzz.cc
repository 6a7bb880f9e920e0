// GGUF files. Whatever is accepted can be used whole, and a file written anew from what was read
// reads the same.

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/testing/fuzz_input.h"
#include "weights/dequantize.h"
#include "weights/gguf.h"
#include "weights/testing/gguf_builder.h"

namespace decant {
namespace {

using testing::GgufBuilder;
using testing::Pack;

/// No getter fails where the value's type is its own, and none reaches past the value.
void UseEntry(const GgufMetadata& metadata, const GgufEntry& entry) {
  DECANT_CHECK(metadata.Find(entry.key) == &entry);
  DECANT_CHECK(!DescribeValue(entry, 1 << 16).empty());
  const bool array = entry.type == GgufValueType::kArray;
  const bool string = entry.element_type == GgufValueType::kString;
  DECANT_CHECK(metadata.GetString(entry.key).ok() == (!array && string));
  DECANT_CHECK(metadata.GetStringArray(entry.key).ok() == (array && string));
  DECANT_CHECK(metadata.GetBool(entry.key).ok() == (entry.type == GgufValueType::kBool));
  DECANT_CHECK(!metadata.GetI64(entry.key).ok() || !array);
  if (entry.type == GgufValueType::kUint64) DECANT_CHECK(metadata.GetU64(entry.key).ok());
  if (entry.type == GgufValueType::kFloat32) DECANT_CHECK(metadata.GetF32(entry.key).ok());
  for (const Status& status :
       {metadata.GetI32Array(entry.key).status(), metadata.GetF32Array(entry.key).status(),
        metadata.GetBoolArray(entry.key).status()}) {
    DECANT_CHECK(status.ok() ? array : status.code() == StatusCode::kDataLoss);
  }
}

void UseTensors(const GgufFile& file) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : file.tensors()) {
    DECANT_CHECK(file.Find(tensor.name) == &tensor);
    DECANT_CHECK(tensor.offset % file.alignment() == 0);
    DECANT_CHECK(tensor.offset + tensor.data.size() <= file.file_size());
    bytes += tensor.data.size();
    if (!CanDequantize(tensor.type)) continue;
    std::vector<float> values(static_cast<size_t>(tensor.elements()));
    DECANT_CHECK(Dequantize(tensor.type, tensor.data, values).ok());
  }
  DECANT_CHECK(bytes < file.file_size(), "tensors overlap");
}

std::vector<std::byte> WriteAnew(const GgufFile& file) {
  GgufBuilder builder;
  builder.SetVersion(file.version());
  for (const GgufEntry& entry : file.metadata().entries()) {
    if (entry.key == "general.alignment") builder.SetAlignment(file.alignment());
    std::vector<std::byte> value;
    if (entry.type == GgufValueType::kArray) {
      value = Pack(static_cast<uint32_t>(entry.element_type), entry.count);
    }
    value.insert(value.end(), entry.bytes.begin(), entry.bytes.end());
    builder.SetRaw(entry.key, static_cast<uint32_t>(entry.type), std::move(value));
  }
  for (const TensorInfo& tensor : file.tensors()) {
    builder.AddRawTensor({.name = tensor.name,
                          .dims = {tensor.dims.begin(), tensor.dims.end()},
                          .type = static_cast<uint32_t>(tensor.type),
                          .data = {tensor.data.begin(), tensor.data.end()},
                          .offset = {},
                          .rank = {}});
  }
  return builder.Build();
}

void CheckSame(const GgufFile& a, const GgufFile& b) {
  const auto entries = [](const GgufFile& file) { return file.metadata().entries(); };
  DECANT_CHECK(
      std::ranges::equal(entries(a), entries(b), [](const GgufEntry& left, const GgufEntry& right) {
        return left.key == right.key && left.type == right.type &&
               left.element_type == right.element_type && left.count == right.count &&
               std::ranges::equal(left.bytes, right.bytes);
      }));
  DECANT_CHECK(std::ranges::equal(
      a.tensors(), b.tensors(), [](const TensorInfo& left, const TensorInfo& right) {
        return left.name == right.name && left.dims == right.dims && left.type == right.type &&
               std::ranges::equal(left.data, right.data);
      }));
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  const auto* bytes = reinterpret_cast<const std::byte*>(data);
  const Expected<GgufFile> file = GgufFile::FromBytes("fuzz", {bytes, bytes + size});
  if (!file.ok()) {
    DECANT_CHECK(file.status().message().starts_with("fuzz: "));
    return 0;
  }
  for (const GgufEntry& entry : file->metadata().entries()) UseEntry(file->metadata(), entry);
  UseTensors(*file);
  const Expected<GgufFile> again = GgufFile::FromBytes("again", WriteAnew(*file));
  DECANT_CHECK(again.ok(), "{}", again.status().ToString());
  CheckSame(*file, *again);
  return 0;
}
