#include "weights/safetensors_header.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

// Format: https://huggingface.co/docs/safetensors: eight bytes, the length of a JSON header; the
// header, {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...} and perhaps
// "__metadata__"; the data, which the tensors fill without holes.

namespace decant::internal {
namespace {

using nlohmann::json;

std::optional<GgmlType> TypeFromDtype(std::string_view dtype) {
  constexpr std::pair<std::string_view, GgmlType> kTypes[] = {
      {"F32", GgmlType::kF32}, {"F16", GgmlType::kF16}, {"BF16", GgmlType::kBf16},
      {"F64", GgmlType::kF64}, {"I8", GgmlType::kI8},   {"I16", GgmlType::kI16},
      {"I32", GgmlType::kI32}, {"I64", GgmlType::kI64}};
  for (const auto& [name, type] : kTypes) {
    if (name == dtype) return type;
  }
  return std::nullopt;
}

/// A number of an int64, or nothing where it is negative, too large or no whole number.
std::optional<int64_t> AsCount(uint64_t value) {
  if (!std::in_range<int64_t>(value)) return std::nullopt;
  return static_cast<int64_t>(value);
}

/// Both files are objects that are read as they come, without a document in memory, so that their
/// size bounds the memory. Every event that a state does not expect is a fault.
class Reader : public nlohmann::json_sax<json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool /*value*/) override { return Unexpected("true or false"); }
  bool number_integer(int64_t /*value*/) override { return Unexpected("a negative number"); }
  bool number_unsigned(uint64_t /*value*/) override { return Unexpected("a number"); }
  bool number_float(double /*value*/, const std::string& text) override {
    return Unexpected("the number " + text.substr(0, 40));
  }
  bool string(std::string& /*value*/) override { return Unexpected("a string"); }
  bool binary(json::binary_t& /*value*/) override { return Unexpected("binary data"); }
  bool start_object(size_t /*elements*/) override { return Unexpected("an object"); }
  bool key(std::string& /*value*/) override { return Unexpected("a key"); }
  bool end_object() override { return true; }
  bool start_array(size_t /*elements*/) override { return Unexpected("a list"); }
  bool end_array() override { return true; }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Fail(DataLoss("not valid JSON at byte {}", position));
  }

  Status status() const { return status_; }

 protected:
  virtual bool Unexpected(std::string_view what) = 0;

  bool Fail(Status status) {
    status_ = std::move(status);
    return false;
  }

 private:
  Status status_;
};

class HeaderReader : public Reader {
 public:
  /// In the order of the header; offsets are those of the header, and `data` is still empty.
  std::vector<TensorInfo> TakeTensors() { return std::move(tensors_); }
  /// Bytes of each of them.
  std::vector<uint64_t> TakeLengths() { return std::move(lengths_); }

  bool start_object(size_t elements) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTensorValue) {
      place_ = Place::kTensor;
    } else if (place_ == Place::kMetadataValue) {
      place_ = Place::kMetadata;
    } else {
      return Reader::start_object(elements);
    }
    return true;
  }

  bool key(std::string& value) override {
    if (place_ == Place::kTop) return StartTensor(value);
    if (place_ == Place::kMetadata) return true;
    if (value == "dtype") return Field(has_dtype_, Place::kDtype, value);
    if (value == "shape") return Field(has_shape_, Place::kShapeValue, value);
    if (value == "data_offsets") return Field(has_offsets_, Place::kOffsetsValue, value);
    return Fail(DataLoss("{}: it has a field that the format does not: {}", name_,
                         value.substr(0, kMaxSafetensorsNameBytes)));
  }

  bool end_object() override {
    if (place_ == Place::kTensor) return EndTensor();
    if (place_ == Place::kMetadata) place_ = Place::kTop;
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kDtype) return Reader::string(value);
    const std::optional<GgmlType> type = TypeFromDtype(value);
    if (!type) {
      return Fail(Error(StatusCode::kUnimplemented,
                        "{}: its dtype is {}; supported: F32, F16, BF16", name_,
                        value.substr(0, 40)));
    }
    tensor_.type = *type;
    place_ = Place::kTensor;
    return true;
  }

  bool start_array(size_t elements) override {
    if (place_ == Place::kShapeValue) {
      place_ = Place::kShape;
    } else if (place_ == Place::kOffsetsValue) {
      place_ = Place::kOffsets;
    } else {
      return Reader::start_array(elements);
    }
    return true;
  }

  bool number_unsigned(uint64_t value) override {
    const bool shape = place_ == Place::kShape;
    if (!shape && place_ != Place::kOffsets) return Reader::number_unsigned(value);
    const std::optional<int64_t> count = AsCount(value);
    if (!count) return Fail(DataLoss("{}: {} is past 2^63", name_, value));
    if (shape && *count == 0) return Fail(DataLoss("{}: a dimension of its shape is 0", name_));
    if (shape && tensor_.dims.size() == kMaxSafetensorsRank) {
      return Fail(DataLoss("{}: it has more than {} dimensions", name_, kMaxSafetensorsRank));
    }
    if (!shape && offsets_.size() == 2) {
      return Fail(DataLoss("{}: data_offsets holds more than two numbers", name_));
    }
    (shape ? tensor_.dims : offsets_).push_back(*count);
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

 protected:
  bool Unexpected(std::string_view what) override {
    switch (place_) {
      case Place::kOutside:
        return Fail(DataLoss("its header is {}, not an object", what));
      case Place::kMetadataValue:
      case Place::kMetadata:
        return Fail(DataLoss("__metadata__: {} stands where a string belongs", what));
      case Place::kDtype:
        return Fail(DataLoss("{}: its dtype is {}, not a string", name_, what));
      case Place::kShapeValue:
      case Place::kShape:
        return Fail(
            DataLoss("{}: its shape holds {}; it must be a list of whole numbers", name_, what));
      case Place::kOffsetsValue:
      case Place::kOffsets:
        return Fail(
            DataLoss("{}: its data_offsets hold {}; they must be two whole numbers", name_, what));
      case Place::kTop:
      case Place::kTensorValue:
      case Place::kTensor:
        break;
    }
    return Fail(DataLoss("{}: its description is {}, not an object", name_, what));
  }

 private:
  enum class Place {
    kOutside,
    kTop,
    kMetadataValue,
    kMetadata,
    kTensorValue,
    kTensor,
    kDtype,
    kShapeValue,
    kShape,
    kOffsetsValue,
    kOffsets,
  };

  bool StartTensor(const std::string& name) {
    if (name == "__metadata__") {
      if (has_metadata_) return Fail(DataLoss("__metadata__ occurs twice"));
      has_metadata_ = true;
      place_ = Place::kMetadataValue;
      return true;
    }
    if (Status status = CheckTensorName(name); !status.ok()) return Fail(std::move(status));
    if (tensors_.size() == kMaxSafetensorsTensors) {
      return Fail(DataLoss("it has more than {} tensors", kMaxSafetensorsTensors));
    }
    name_ = name;
    tensor_ = TensorInfo();
    tensor_.name = name;
    offsets_.clear();
    has_dtype_ = has_shape_ = has_offsets_ = false;
    place_ = Place::kTensorValue;
    return true;
  }

  bool Field(bool& seen, Place place, std::string_view field) {
    if (seen) return Fail(DataLoss("{}: {} occurs twice", name_, field));
    seen = true;
    place_ = place;
    return true;
  }

  bool EndTensor() {
    for (const auto& [has, field] : {std::pair{has_dtype_, "dtype"}, std::pair{has_shape_, "shape"},
                                     std::pair{has_offsets_, "data_offsets"}}) {
      if (!has) return Fail(DataLoss("{}: it has no {}", name_, field));
    }
    if (offsets_.size() != 2) {
      return Fail(DataLoss("{}: data_offsets holds {} numbers, not two", name_, offsets_.size()));
    }
    if (offsets_[0] > offsets_[1]) {
      return Fail(DataLoss("{}: its data end at {}, before they start at {}", name_, offsets_[1],
                           offsets_[0]));
    }
    std::ranges::reverse(tensor_.dims);
    if (tensor_.dims.empty()) tensor_.dims = {1};
    int64_t bytes = TraitsOf(tensor_.type).block_bytes;
    for (const int64_t dim : tensor_.dims) {
      if (__builtin_mul_overflow(bytes, dim, &bytes)) {
        return Fail(DataLoss("{}: the product of its dimensions overflows", name_));
      }
    }
    if (bytes != offsets_[1] - offsets_[0]) {
      return Fail(DataLoss("{}: its shape takes {} bytes, its data_offsets {}", name_, bytes,
                           offsets_[1] - offsets_[0]));
    }
    tensor_.offset = static_cast<uint64_t>(offsets_[0]);
    lengths_.push_back(static_cast<uint64_t>(bytes));
    tensors_.push_back(std::move(tensor_));
    place_ = Place::kTop;
    return true;
  }

  Place place_ = Place::kOutside;
  bool has_metadata_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
  std::string name_;
  TensorInfo tensor_;
  std::vector<int64_t> offsets_;
  std::vector<TensorInfo> tensors_;
  std::vector<uint64_t> lengths_;
};

class IndexReader : public Reader {
 public:
  std::vector<std::pair<std::string, std::string>> TakeEntries() { return std::move(entries_); }
  bool has_map() const { return has_map_; }

  bool start_object(size_t /*elements*/) override {
    ++depth_;
    if (depth_ == 2 && key_ == "weight_map") {
      if (has_map_) return Fail(DataLoss("weight_map occurs twice"));
      has_map_ = true;
      in_map_ = true;
      return true;
    }
    return !in_map_ || Unexpected("an object");
  }

  bool end_object() override {
    --depth_;
    in_map_ = false;
    return true;
  }

  bool start_array(size_t /*elements*/) override {
    ++depth_;
    return CheckPlace("a list");
  }

  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(std::string& value) override {
    key_ = value;
    return true;
  }

  bool string(std::string& value) override {
    if (!in_map_) return CheckPlace("a string");
    if (Status status = CheckTensorName(key_); !status.ok()) return Fail(std::move(status));
    if (Status status = CheckFileName(value); !status.ok()) return Fail(std::move(status));
    if (entries_.size() == kMaxSafetensorsTensors) {
      return Fail(DataLoss("weight_map has more than {} tensors", kMaxSafetensorsTensors));
    }
    entries_.emplace_back(key_, value);
    return true;
  }

  bool null() override { return CheckPlace("null"); }
  bool boolean(bool /*value*/) override { return CheckPlace("true or false"); }
  bool number_integer(int64_t /*value*/) override { return CheckPlace("a number"); }
  bool number_unsigned(uint64_t /*value*/) override { return CheckPlace("a number"); }
  bool number_float(double /*value*/, const std::string& /*text*/) override {
    return CheckPlace("a number");
  }

 protected:
  bool Unexpected(std::string_view what) override {
    if (depth_ == 0) return Fail(DataLoss("it is {}, not an object", what));
    const std::string name = key_.substr(0, kMaxSafetensorsNameBytes);
    if (!in_map_) return Fail(DataLoss("weight_map is {}, not an object", what));
    return Fail(DataLoss("weight_map.{} is {}, not the name of a file", name, what));
  }

 private:
  /// Any value may stand outside the map, but not in its place, in it, or instead of the object.
  bool CheckPlace(std::string_view what) {
    const int outer = what == "a list" ? depth_ - 1 : depth_;
    if (outer == 0 || in_map_ || (outer == 1 && key_ == "weight_map")) {
      depth_ = outer;
      return Unexpected(what);
    }
    return true;
  }

  Status CheckFileName(std::string_view file) const {
    const bool plain = !file.empty() && file.size() <= kMaxSafetensorsNameBytes &&
                       file.find('/') == std::string_view::npos &&
                       file.find('\\') == std::string_view::npos && CheckTensorName(file).ok() &&
                       file.ends_with(".safetensors");
    if (plain) return {};
    return DataLoss("weight_map.{}: the file '{}' is not the plain name of a .safetensors file",
                    key_, CheckTensorName(file).ok() ? file : "(unprintable)");
  }

  int depth_ = 0;
  bool in_map_ = false;
  bool has_map_ = false;
  std::string key_;
  std::vector<std::pair<std::string, std::string>> entries_;
};

Status CheckDistinct(std::span<const std::string_view> sorted_names) {
  const auto twice = std::ranges::adjacent_find(sorted_names);
  if (twice == sorted_names.end()) return {};
  return DataLoss("{}: the name occurs twice", *twice);
}

}  // namespace

Status CheckTensorName(std::string_view name) {
  if (name.empty()) return DataLoss("a tensor's name is empty");
  if (name.size() > kMaxSafetensorsNameBytes) {
    return DataLoss("a tensor's name has {} bytes; at most {} are read", name.size(),
                    kMaxSafetensorsNameBytes);
  }
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::ranges::any_of(name, is_control)) {
    return DataLoss("a tensor's name holds a control character");
  }
  return {};
}

Expected<std::vector<TensorInfo>> ParseSafetensors(std::span<const std::byte> file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) {
    return DataLoss("the file ends inside the length of its header: it has {} bytes", file.size());
  }
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return DataLoss("it says that its header has {} bytes; at most {} are read", header_bytes,
                    kMaxSafetensorsHeaderBytes);
  }
  if (header_bytes > file.size() - sizeof(header_bytes)) {
    return DataLoss("the file ends inside its header: {} of {} bytes are there",
                    file.size() - sizeof(header_bytes), header_bytes);
  }
  const std::string_view header(reinterpret_cast<const char*>(file.data()) + sizeof(header_bytes),
                                header_bytes);
  const std::span<const std::byte> data = file.subspan(sizeof(header_bytes) + header_bytes);
  HeaderReader reader;
  if (!json::sax_parse(header, &reader)) return reader.status().WithContext("header");
  const std::vector<uint64_t> lengths = reader.TakeLengths();
  std::vector<TensorInfo> tensors = reader.TakeTensors();

  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
  std::ranges::sort(names);
  DECANT_RETURN_IF_ERROR(CheckDistinct(names));

  for (size_t i = 0; i < tensors.size(); ++i) {
    TensorInfo& tensor = tensors[i];
    if (tensor.offset > data.size() || lengths[i] > data.size() - tensor.offset) {
      return DataLoss("{}: its data reach past the end of the file: bytes {} to {} of {}",
                      tensor.name, tensor.offset, tensor.offset + lengths[i], data.size());
    }
    tensor.data = data.subspan(tensor.offset, lengths[i]);
  }
  std::ranges::sort(tensors, {}, &TensorInfo::offset);
  uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    if (tensor.offset < end) {
      return DataLoss("{}: its data start at {} and overlap those of another tensor, up to {}",
                      tensor.name, tensor.offset, end);
    }
    if (tensor.offset > end) {
      return DataLoss("{}: its data start at {}, after a gap that starts at {}", tensor.name,
                      tensor.offset, end);
    }
    end += tensor.data.size();
    tensor.offset += sizeof(header_bytes) + header_bytes;
  }
  if (end != data.size()) {
    return DataLoss("{} bytes follow the data of the last tensor", data.size() - end);
  }
  return tensors;
}

Expected<std::vector<std::pair<std::string, std::string>>> ParseSafetensorsIndex(
    std::string_view text) {
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    return DataLoss("{} bytes of JSON; at most {} are read", text.size(),
                    kMaxSafetensorsHeaderBytes);
  }
  IndexReader reader;
  if (!json::sax_parse(text, &reader)) return reader.status();
  if (!reader.has_map()) return DataLoss("no key weight_map");
  auto entries = reader.TakeEntries();
  std::ranges::sort(entries);
  std::vector<std::string_view> names;
  names.reserve(entries.size());
  for (const auto& [name, shard] : entries) names.push_back(name);
  DECANT_RETURN_IF_ERROR(CheckDistinct(names).WithContext("weight_map"));
  return entries;
}

}  // namespace decant::internal
