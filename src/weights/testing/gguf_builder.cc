#include "weights/testing/gguf_builder.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/narrow.h"
#include "base/random.h"
#include "weights/testing/quantize.h"

namespace decant::testing {

GgufBuilder& GgufBuilder::SetRaw(std::string_view key, uint32_t type,
                                 std::vector<std::byte> value) {
  const auto found = std::ranges::find(entries_, key, &RawEntry::key);
  if (found == entries_.end()) return AddDuplicateKey(key, type, std::move(value));
  found->type = type;
  found->value = std::move(value);
  return *this;
}

GgufBuilder& GgufBuilder::AddDuplicateKey(std::string_view key, uint32_t type,
                                          std::vector<std::byte> value) {
  entries_.push_back({std::string(key), type, std::move(value)});
  return *this;
}

GgufBuilder& GgufBuilder::Unset(std::string_view key) {
  std::erase_if(entries_, [&](const RawEntry& entry) { return entry.key == key; });
  return *this;
}

GgufBuilder& GgufBuilder::AddTensor(std::string_view name, std::vector<int64_t> dims, GgmlType type,
                                    std::span<const float> values) {
  const auto elements = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  DECANT_CHECK(Narrow<int64_t>(values.size()) == elements, "{} has {} elements, not {}", name,
               elements, values.size());
  return AddRawTensor({.name = std::string(name),
                       .dims = {dims.begin(), dims.end()},
                       .type = static_cast<uint32_t>(type),
                       .data = Quantize(type, values),
                       .offset = {},
                       .rank = {}});
}

GgufBuilder& GgufBuilder::AddRandomTensor(std::string_view name, std::vector<int64_t> dims,
                                          GgmlType type, uint64_t seed, float scale) {
  const auto elements = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  const CounterRng random(seed);
  std::vector<float> values(Narrow<size_t>(elements));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * static_cast<float>(2.0 * random.Uniform(i) - 1.0);
  }
  return AddTensor(name, std::move(dims), type, values);
}

GgufBuilder& GgufBuilder::AddRawTensor(RawTensor tensor) {
  tensors_.push_back(std::move(tensor));
  return *this;
}

GgufBuilder& GgufBuilder::SetAlignment(uint32_t alignment) {
  alignment_ = alignment;
  return Set("general.alignment", alignment);
}

GgufBuilder& GgufBuilder::OverrideMagic(uint32_t magic) {
  magic_ = magic;
  return *this;
}

GgufBuilder& GgufBuilder::SetVersion(uint32_t version) {
  version_ = version;
  return *this;
}

GgufBuilder& GgufBuilder::OverrideKeyCount(uint64_t count) {
  key_count_ = count;
  return *this;
}

GgufBuilder& GgufBuilder::OverrideTensorCount(uint64_t count) {
  tensor_count_ = count;
  return *this;
}

GgufBuilder::Layout GgufBuilder::LayOut() const {
  constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
  Layout layout;
  const auto field = [&](const auto& value) {
    layout.field_starts.push_back(layout.bytes.size());
    AppendBytes(layout.bytes, value);
  };
  const auto text = [&](std::string_view value) {
    field(static_cast<uint64_t>(value.size()));
    field(value);
  };
  const auto pad = [&] { layout.bytes.resize(RoundUp<size_t>(layout.bytes.size(), alignment_)); };

  field(magic_.value_or(kMagic));
  field(version_);
  field(tensor_count_.value_or(tensors_.size()));
  field(key_count_.value_or(entries_.size()));
  for (const RawEntry& entry : entries_) {
    text(entry.key);
    field(entry.type);
    layout.field_starts.push_back(layout.bytes.size());
    layout.bytes.insert(layout.bytes.end(), entry.value.begin(), entry.value.end());
  }
  uint64_t offset = 0;
  for (const RawTensor& tensor : tensors_) {
    text(tensor.name);
    field(tensor.rank.value_or(Narrow<uint32_t>(tensor.dims.size())));
    for (const uint64_t dim : tensor.dims) field(dim);
    field(tensor.type);
    field(tensor.offset.value_or(offset));
    offset = RoundUp<uint64_t>(offset + tensor.data.size(), alignment_);
  }
  for (const RawTensor& tensor : tensors_) {
    pad();
    layout.field_starts.push_back(layout.bytes.size());
    layout.bytes.insert(layout.bytes.end(), tensor.data.begin(), tensor.data.end());
  }
  return layout;
}

std::vector<std::byte> GgufBuilder::Build() const { return LayOut().bytes; }

std::vector<size_t> GgufBuilder::FieldStarts() const { return LayOut().field_starts; }

void GgufBuilder::WriteTo(const std::string& path) const {
  const std::vector<std::byte> bytes = Build();
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), Narrow<std::streamsize>(bytes.size()));
  file.close();
  DECANT_CHECK(file.good(), "cannot write {}", path);
}

}  // namespace decant::testing
