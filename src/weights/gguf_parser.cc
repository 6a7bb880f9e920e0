#include "weights/gguf_parser.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "base/narrow.h"

namespace decant::internal {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF numbers are read in place");

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kMinAlignment = 8;

// Least bytes that each may take: an entry is key length, one character, type and one byte; a
// tensor is name length, one character, rank, one dimension, type and offset.
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;

// Names go into messages and on terminals, so control characters and spaces are refused.
bool IsPrintable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace

GgufParser::GgufParser(std::span<const std::byte> file)
    : file_(file),
      header_(file.first(std::min<uint64_t>(file.size(), GgufFile::kMaxHeaderBytes))) {}

Status GgufParser::Parse() {
  DECANT_RETURN_IF_ERROR(ReadHeader());

  DECANT_RETURN_IF_ERROR(CheckCount("keys", entry_count_, GgufFile::kMaxEntries, kMinEntryBytes));
  entries_.resize(entry_count_);
  for (uint64_t i = 0; i < entry_count_; ++i) {
    if (Status status = ReadEntry(entries_[i]); !status.ok()) {
      return status.WithContext(fmt::format("key {} of {}", i + 1, entry_count_));
    }
  }
  DECANT_RETURN_IF_ERROR(CheckDuplicateKeys());
  DECANT_RETURN_IF_ERROR(ReadAlignment());

  DECANT_RETURN_IF_ERROR(
      CheckCount("tensors", tensor_count_, GgufFile::kMaxTensors, kMinTensorBytes));
  tensors_.resize(tensor_count_);
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    if (Status status = ReadTensor(tensors_[i]); !status.ok()) {
      return status.WithContext(fmt::format("tensor {} of {}", i + 1, tensor_count_));
    }
  }
  DECANT_RETURN_IF_ERROR(PlaceTensors());
  return CheckOverlap();
}

template <typename T>
bool GgufParser::Read(T& value) {
  if (Remaining() < sizeof(T)) return false;
  std::memcpy(&value, header_.data() + position_, sizeof(T));
  position_ += sizeof(T);
  return true;
}

// On failure, `length` is what the file says (or 0 if that is missing too).
bool GgufParser::ReadString(std::string_view& text, uint64_t& length) {
  length = 0;
  if (!Read(length) || length > Remaining()) return false;
  text = {reinterpret_cast<const char*>(header_.data() + position_), length};
  position_ += length;
  return true;
}

Status GgufParser::Truncated(std::string_view what) const {
  if (header_.size() < file_.size()) {
    return DataLoss(
        "{} at byte {} reaches past the first {} bytes, the most that is read of "
        "metadata and tensor list",
        what, position_, header_.size());
  }
  return DataLoss("the file ends inside {}: {} bytes are left at byte {}", what, Remaining(),
                  position_);
}

Status GgufParser::ReadName(std::string_view what, uint64_t max_bytes, std::string_view& name) {
  uint64_t length = 0;
  if (!ReadString(name, length)) {
    return Truncated(length == 0 ? fmt::format("the length of its {}", what)
                                 : fmt::format("its {} of {} bytes", what, length));
  }
  if (length == 0) return DataLoss("its {} is empty", what);
  if (length > max_bytes) {
    return DataLoss("its {} is {} bytes long; at most {} are allowed", what, length, max_bytes);
  }
  if (!IsPrintable(name)) {
    return DataLoss("its {} has characters other than printable ASCII", what);
  }
  return Status();
}

Status GgufParser::ReadHeader() {
  uint32_t magic = 0;
  if (!Read(magic)) return Truncated("the magic");
  if (magic != kMagic) return DataLoss("not a GGUF file: it does not start with \"GGUF\"");
  if (!Read(version_)) return Truncated("the version");
  if (version_ != 0 && (version_ & 0xffffu) == 0) {
    return Error(StatusCode::kUnimplemented, "a big-endian GGUF file; only little-endian is read");
  }
  if (version_ != 2 && version_ != 3) {
    return Error(StatusCode::kUnimplemented, "GGUF version {} is not supported; 2 and 3 are",
                 version_);
  }
  if (!Read(tensor_count_)) return Truncated("the number of tensors");
  if (!Read(entry_count_)) return Truncated("the number of keys");
  return Status();
}

Status GgufParser::CheckCount(std::string_view what, uint64_t count, uint64_t limit,
                              uint64_t min_bytes) const {
  if (count > Remaining() / min_bytes) {
    return DataLoss("it says {} {}, but the {} bytes left can hold no more than {}", count, what,
                    Remaining(), Remaining() / min_bytes);
  }
  if (count > limit) {
    return DataLoss("it says {} {}; at most {} are read", count, what, limit);
  }
  return Status();
}

Status GgufParser::ReadEntry(GgufEntry& entry) {
  DECANT_RETURN_IF_ERROR(ReadName("name", GgufFile::kMaxKeyBytes, entry.key));
  if (Status status = ReadValue(entry); !status.ok()) {
    return status.WithContext(fmt::format("'{}'", entry.key.substr(0, 100)));
  }
  return Status();
}

Status GgufParser::ReadValue(GgufEntry& entry) {
  uint32_t type = 0;
  if (!Read(type)) return Truncated("its type");
  const std::optional<GgufValueType> known = GgufValueTypeFromNumber(type);
  if (!known) return DataLoss("{} is not a value type; 0 to 12 are", type);
  entry.type = *known;
  entry.element_type = *known;
  if (entry.type != GgufValueType::kArray) return ReadElements(entry);

  if (!Read(type)) return Truncated("its element type");
  const std::optional<GgufValueType> known_element = GgufValueTypeFromNumber(type);
  if (!known_element) return DataLoss("{} is not an element type; 0 to 12 are", type);
  if (*known_element == GgufValueType::kArray) {
    return Error(StatusCode::kUnimplemented, "arrays of arrays are not supported");
  }
  entry.element_type = *known_element;
  if (!Read(entry.count)) return Truncated("its number of elements");
  const uint64_t least = entry.element_type == GgufValueType::kString
                             ? sizeof(uint64_t)
                             : GgufScalarBytes(entry.element_type);
  if (entry.count > Remaining() / least) {
    return Truncated(
        fmt::format("its {} elements of {}", entry.count, GgufValueTypeName(entry.element_type)));
  }
  if (entry.count > GgufFile::kMaxArrayElements) {
    return DataLoss("it says {} elements; at most {} are read", entry.count,
                    GgufFile::kMaxArrayElements);
  }
  return ReadElements(entry);
}

Status GgufParser::ReadElements(GgufEntry& entry) {
  const uint64_t start = position_;
  if (entry.element_type == GgufValueType::kString) {
    for (uint64_t i = 0; i < entry.count; ++i) {
      std::string_view text;
      uint64_t length = 0;
      if (ReadString(text, length)) continue;
      if (entry.type == GgufValueType::kString) {
        return Truncated(fmt::format("its string of {} bytes", length));
      }
      return Truncated(fmt::format("its element {}, a string of {} bytes", i, length));
    }
  } else {
    // The count was held against the bytes left, so the product cannot overflow.
    const uint64_t size = entry.count * GgufScalarBytes(entry.element_type);
    if (size > Remaining()) {
      return Truncated(fmt::format("its {}", GgufValueTypeName(entry.element_type)));
    }
    position_ += size;
  }
  entry.bytes = header_.subspan(start, position_ - start);

  if (entry.element_type == GgufValueType::kBool &&
      std::ranges::any_of(entry.bytes, [](std::byte value) { return value > std::byte{1}; })) {
    return DataLoss("a bool is neither 0 nor 1");
  }
  return Status();
}

Status GgufParser::CheckDuplicateKeys() const {
  std::vector<std::string_view> keys(entries_.size());
  std::ranges::transform(entries_, keys.begin(), &GgufEntry::key);
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice == keys.end()) return Status();
  return DataLoss("key '{}' is there twice", twice->substr(0, 100));
}

Status GgufParser::ReadAlignment() {
  const GgufMetadata metadata("", entries_);
  constexpr std::string_view kKey = "general.alignment";
  if (!metadata.Has(kKey)) return Status();
  const Expected<uint32_t> alignment = metadata.GetU32(kKey);
  if (!alignment.ok()) return DataLoss("key '{}' is not a uint32", kKey);
  if (!std::has_single_bit(*alignment) || *alignment < kMinAlignment) {
    return DataLoss("key '{}' is {}; a power of two of at least {} is needed", kKey, *alignment,
                    kMinAlignment);
  }
  alignment_ = *alignment;
  return Status();
}

Status GgufParser::ReadTensor(TensorInfo& tensor) {
  std::string_view name;
  DECANT_RETURN_IF_ERROR(ReadName("name", GgufFile::kMaxTensorNameBytes, name));
  tensor.name = name;
  if (Status status = ReadDims(tensor); !status.ok()) {
    return status.WithContext(fmt::format("'{}'", name));
  }
  return Status();
}

Status GgufParser::ReadDims(TensorInfo& tensor) {
  uint32_t rank = 0;
  if (!Read(rank)) return Truncated("its number of dimensions");
  if (rank < 1 || rank > kMaxRank) {
    return DataLoss("it says {} dimensions; 1 to {} are allowed", rank, kMaxRank);
  }
  int64_t elements = 1;
  for (uint32_t i = 0; i < rank; ++i) {
    uint64_t dim = 0;
    if (!Read(dim)) return Truncated(fmt::format("its dimension {}", i));
    if (dim == 0) return DataLoss("dimension {} is zero", i);
    if (!std::in_range<int64_t>(dim) ||
        __builtin_mul_overflow(elements, static_cast<int64_t>(dim), &elements)) {
      return DataLoss("its dimensions multiply to more than 64 bits can count (dimension {} is {})",
                      i, dim);
    }
    tensor.dims.push_back(static_cast<int64_t>(dim));
  }

  uint32_t type = 0;
  if (!Read(type)) return Truncated("its type");
  const std::optional<GgmlType> known = GgmlTypeFromNumber(type);
  if (!known) return DataLoss("{} is not a tensor type that this reader knows", type);
  tensor.type = *known;
  const GgmlTypeTraits& traits = TraitsOf(tensor.type);
  if (tensor.dims[0] % traits.block_elements != 0) {
    return DataLoss("its rows of {} elements are not whole {} blocks of {}", tensor.dims[0],
                    traits.name, traits.block_elements);
  }
  if (!Read(tensor.offset)) return Truncated("its offset");
  return Status();
}

// Turns offsets within the data section into spans of the file.
Status GgufParser::PlaceTensors() {
  const uint64_t data_start = RoundUp<uint64_t>(position_, alignment_);
  for (TensorInfo& tensor : tensors_) {
    const Expected<int64_t> encoded = EncodedBytes(tensor.type, tensor.elements());
    if (!encoded.ok()) return DataLoss("tensor '{}': {}", tensor.name, encoded.status().message());
    const auto size = static_cast<uint64_t>(*encoded);
    if (tensor.offset % alignment_ != 0) {
      return DataLoss("tensor '{}': its offset {} is not a multiple of the alignment {}",
                      tensor.name, tensor.offset, alignment_);
    }
    const uint64_t available = file_.size() - std::min<uint64_t>(data_start, file_.size());
    if (tensor.offset > available || size > available - tensor.offset) {
      return DataLoss(
          "tensor '{}': its {} bytes at offset {} reach past the {} bytes of tensor "
          "data in the file",
          tensor.name, size, tensor.offset, available);
    }
    tensor.offset += data_start;
    tensor.data = file_.subspan(tensor.offset, size);
  }
  return Status();
}

Status GgufParser::CheckOverlap() const {
  std::vector<const TensorInfo*> order(tensors_.size());
  std::ranges::transform(tensors_, order.begin(), [](const TensorInfo& t) { return &t; });

  std::ranges::sort(order, {}, [](const TensorInfo* t) -> std::string_view { return t->name; });
  const auto twice = std::ranges::adjacent_find(
      order, [](const TensorInfo* a, const TensorInfo* b) { return a->name == b->name; });
  if (twice != order.end()) return DataLoss("tensor '{}' is there twice", (*twice)->name);

  std::ranges::sort(order, {}, &TensorInfo::offset);
  const auto overlapping =
      std::ranges::adjacent_find(order, [](const TensorInfo* a, const TensorInfo* b) {
        return a->offset + a->data.size() > b->offset;
      });
  if (overlapping == order.end()) return Status();
  return DataLoss("the data of tensors '{}' and '{}' overlap", (*overlapping)->name,
                  (*std::next(overlapping))->name);
}

}  // namespace decant::internal
