#include "text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/narrow.h"
#include "text/utf8.h"

namespace decant {
namespace {

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

/// Canonical decomposition of every code point, marks not yet in order.
std::vector<utf8proc_int32_t> Decompose(std::string_view utf8) {
  // The longest canonical decomposition of one code point has 4 code points (UAX #15, table 9).
  constexpr utf8proc_ssize_t kLongest = 4;
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  std::vector<utf8proc_int32_t> out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Unit unit = ReadUtf8(utf8);
    utf8.remove_prefix(unit.length);
    utf8proc_int32_t parts[kLongest];
    int boundary_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(unit.code_point), parts, kLongest, kOptions, &boundary_class);
    DECANT_CHECK(count > 0 && count <= kLongest, "U+{:04X}: utf8proc says {}",
                 static_cast<uint32_t>(unit.code_point), count);
    out.insert(out.end(), parts, parts + count);
  }
  return out;
}

/// Sorts each run of marks by combining class. utf8proc does this too, but in quadratic time, which
/// a megabyte of alternating marks would turn into hours.
void OrderMarks(std::span<utf8proc_int32_t> code_points) {
  const auto is_starter = [](utf8proc_int32_t c) { return CombiningClass(c) == 0; };
  auto it = code_points.begin();
  while (it != code_points.end()) {
    const auto run = std::find_if_not(it, code_points.end(), is_starter);
    it = std::find_if(run, code_points.end(), is_starter);
    std::stable_sort(run, it, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
  }
}

}  // namespace

bool IsPlainlyNfc(std::string_view utf8) {
  // 0xCC is the lead byte of U+0300.
  return std::all_of(utf8.begin(), utf8.end(),
                     [](char c) { return static_cast<uint8_t>(c) < 0xCC; });
}

std::string NormalizeNfc(std::string_view utf8) {
  std::vector<utf8proc_int32_t> code_points = Decompose(utf8);
  OrderMarks(code_points);
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      code_points.data(), Narrow<utf8proc_ssize_t>(code_points.size()), kOptions);
  DECANT_CHECK(count >= 0, "utf8proc says {}", count);
  std::string out;
  out.reserve(utf8.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(code_points[static_cast<size_t>(i)]), out);
  }
  return out;
}

}  // namespace decant
