#include "text/unicode_form.h"

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

bool IsCompatible(UnicodeForm form) {
  return form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd;
}

bool IsComposed(UnicodeForm form) {
  return form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc;
}

/// Decomposition of every code point, marks not yet in order.
std::vector<utf8proc_int32_t> Decompose(std::string_view utf8, UnicodeForm form) {
  // U+FDFA's compatibility decomposition, the longest (UAX #15, table 9).
  constexpr utf8proc_ssize_t kLongest = 18;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (IsCompatible(form) ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> out;
  out.reserve(utf8.size());
  while (!utf8.empty()) {
    const Utf8Unit unit = ReadUtf8(utf8);
    utf8.remove_prefix(unit.length);
    utf8proc_int32_t parts[kLongest];
    int boundary_class = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(unit.code_point), parts, kLongest, options, &boundary_class);
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

bool IsPlainly(std::string_view utf8, UnicodeForm form) {
  // The first changes are at U+0300 (lead byte 0xCC), U+00C0 (0xC3) and U+00A0 (0xC2).
  const uint8_t limit = form == UnicodeForm::kNfc ? 0xCC : form == UnicodeForm::kNfd ? 0xC3 : 0xC2;
  return std::all_of(utf8.begin(), utf8.end(),
                     [limit](char c) { return static_cast<uint8_t>(c) < limit; });
}

std::string NormalizeUnicode(std::string_view utf8, UnicodeForm form) {
  std::vector<utf8proc_int32_t> code_points = Decompose(utf8, form);
  OrderMarks(code_points);
  if (IsComposed(form)) {
    constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        code_points.data(), Narrow<utf8proc_ssize_t>(code_points.size()), kOptions);
    DECANT_CHECK(count >= 0, "utf8proc says {}", count);
    code_points.resize(static_cast<size_t>(count));
  }
  std::string out;
  out.reserve(utf8.size());
  for (const utf8proc_int32_t c : code_points) AppendUtf8(static_cast<char32_t>(c), out);
  return out;
}

}  // namespace decant
