#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace decant::testing {

/// Stands between the parts of an input that has several, so that seeds can be read and edited.
inline constexpr std::string_view kFuzzSeparator = "\n====\n";

/// A fuzzer's bytes, taken from the front.
class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  /// The next byte; 0 where none is left.
  uint8_t Byte() {
    if (rest_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return byte;
  }

  /// What stands before the next `separator`, which goes too; everything where there is none.
  std::string_view Until(std::string_view separator) {
    const size_t at = rest_.find(separator);
    const std::string_view part = rest_.substr(0, at);
    rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + separator.size());
    return part;
  }
  std::string_view Part() { return Until(kFuzzSeparator); }

 private:
  std::string_view rest_;
};

}  // namespace decant::testing
