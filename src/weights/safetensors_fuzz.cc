// Safetensors. The first byte chooses: '0' a file as it is; '1' a header and, behind the separator,
// the data, with a length that is right; '2' an index. What is accepted fills its file, and a
// header or index written anew from what was read reads the same.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "base/testing/fuzz_input.h"
#include "weights/safetensors_header.h"
#include "weights/testing/pack.h"

namespace decant {
namespace {

using internal::CheckTensorName;
using internal::ParseSafetensors;
using internal::ParseSafetensorsIndex;
using testing::FuzzInput;

std::string DtypeName(GgmlType type) {
  return type == GgmlType::kBf16 ? "BF16" : std::string(GgmlTypeName(type));
}

/// The tensors fill the file's end, one behind the other.
void CheckTensors(std::span<const std::byte> file, std::span<const TensorInfo> tensors) {
  uint64_t bytes = 0;
  for (const TensorInfo& tensor : tensors) bytes += tensor.data.size();
  DECANT_CHECK(bytes < file.size());
  uint64_t offset = file.size() - bytes;
  std::set<std::string_view> names;
  for (const TensorInfo& tensor : tensors) {
    DECANT_CHECK(CheckTensorName(tensor.name).ok() && names.insert(tensor.name).second);
    DECANT_CHECK(tensor.offset == offset && tensor.data.data() == file.data() + offset);
    const Expected<int64_t> encoded = EncodedBytes(tensor.type, tensor.elements());
    DECANT_CHECK(encoded.ok() && static_cast<uint64_t>(*encoded) == tensor.data.size());
    offset += tensor.data.size();
  }
}

std::vector<std::byte> WriteAnew(std::span<const TensorInfo> tensors) {
  JsonObject header;
  uint64_t offset = 0;
  std::vector<std::byte> data;
  for (const TensorInfo& tensor : tensors) {
    JsonArray shape;
    for (size_t i = tensor.dims.size(); i > 0; --i) shape.Add(tensor.dims[i - 1]);
    JsonArray offsets;
    offsets.Add(offset).Add(offset + tensor.data.size());
    offset += tensor.data.size();
    header.Add(tensor.name, JsonObject()
                                .Add("dtype", DtypeName(tensor.type))
                                .Add("shape", shape)
                                .Add("data_offsets", offsets));
    data.insert(data.end(), tensor.data.begin(), tensor.data.end());
  }
  const std::string text = header.ToString();
  std::vector<std::byte> file = testing::Pack(uint64_t{text.size()}, text);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

void TryFile(std::span<const std::byte> file) {
  const Expected<std::vector<TensorInfo>> tensors = ParseSafetensors(file);
  if (!tensors.ok()) return;
  CheckTensors(file, *tensors);
  const std::vector<std::byte> anew = WriteAnew(*tensors);
  const Expected<std::vector<TensorInfo>> again = ParseSafetensors(anew);
  DECANT_CHECK(again.ok(), "{}", again.status().ToString());
  DECANT_CHECK(
      std::ranges::equal(*tensors, *again, [](const TensorInfo& left, const TensorInfo& right) {
        return left.name == right.name && left.dims == right.dims && left.type == right.type &&
               std::ranges::equal(left.data, right.data);
      }));
}

void TryIndex(std::string_view text) {
  const auto entries = ParseSafetensorsIndex(text);
  if (!entries.ok()) return;
  JsonObject map;
  std::string_view last;
  for (const auto& [name, file] : *entries) {
    DECANT_CHECK(CheckTensorName(name).ok() && last < name);
    DECANT_CHECK(file.ends_with(".safetensors") && file.find('/') == std::string::npos);
    map.Add(name, file);
    last = name;
  }
  const auto again = ParseSafetensorsIndex(JsonObject().Add("weight_map", map).ToString());
  DECANT_CHECK(again.ok() && *again == *entries);
}

}  // namespace
}  // namespace decant

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace decant;
  FuzzInput input(data, size);
  const int kind = input.Byte() % 3;
  if (kind == 2) {
    TryIndex(input.rest());
    return 0;
  }
  std::vector<std::byte> file;
  if (kind == 1) {
    const std::string_view header = input.Part();
    file = testing::Pack(uint64_t{header.size()}, header, input.rest());
  } else {
    file = testing::Pack(input.rest());
  }
  TryFile(file);
  return 0;
}
