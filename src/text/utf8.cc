#include "text/utf8.h"

#include <cstdint>

#include "base/check.h"

namespace decant {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Length and allowed second byte of the sequences that `lead` begins; length 0: none.
struct LeadByte {
  size_t length = 0;
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

LeadByte Classify(uint8_t lead) {
  if (lead < 0x80) return {.length = 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {.length = 2};
  if (lead == 0xE0) return {.length = 3, .second_min = 0xA0};
  if (lead == 0xED) return {.length = 3, .second_max = 0x9F};
  if (lead < 0xF0) return {.length = 3};
  if (lead == 0xF0) return {.length = 4, .second_min = 0x90};
  if (lead < 0xF4) return {.length = 4};
  if (lead == 0xF4) return {.length = 4, .second_max = 0x8F};
  return {};
}

}  // namespace

Utf8Unit ReadUtf8(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const LeadByte lead = Classify(byte(0));
  if (lead.length == 0) return {};
  if (lead.length == 1) return {Utf8Kind::kValid, byte(0), 1};
  char32_t code_point = byte(0) & (0x7FU >> lead.length);
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Utf8Kind::kIncomplete, 0xFFFD, i};
    const uint8_t min = i == 1 ? lead.second_min : uint8_t{0x80};
    const uint8_t max = i == 1 ? lead.second_max : uint8_t{0xBF};
    if (byte(i) < min || byte(i) > max) return {Utf8Kind::kInvalid, 0xFFFD, i};
    code_point = (code_point << 6) | (byte(i) & 0x3FU);
  }
  return {Utf8Kind::kValid, code_point, lead.length};
}

void AppendUtf8(char32_t code_point, std::string& out) {
  DECANT_CHECK(code_point <= 0x10FFFF, "not a code point: {}", static_cast<uint32_t>(code_point));
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | (code_point >> 6));
    put(0x80U | (code_point & 0x3FU));
  } else if (code_point < 0x10000) {
    put(0xE0U | (code_point >> 12));
    put(0x80U | ((code_point >> 6) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  } else {
    put(0xF0U | (code_point >> 18));
    put(0x80U | ((code_point >> 12) & 0x3FU));
    put(0x80U | ((code_point >> 6) & 0x3FU));
    put(0x80U | (code_point & 0x3FU));
  }
}

size_t AppendCompleteUtf8(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const Utf8Unit unit = ReadUtf8(bytes);
    if (unit.kind == Utf8Kind::kIncomplete) break;
    out.append(unit.kind == Utf8Kind::kValid ? bytes.substr(0, unit.length) : kReplacement);
    bytes.remove_prefix(unit.length);
  }
  return bytes.size();
}

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Unit unit = ReadUtf8(bytes);
    if (unit.kind != Utf8Kind::kValid) return false;
    bytes.remove_prefix(unit.length);
  }
  return true;
}

std::string RepairUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (AppendCompleteUtf8(bytes, out) > 0) out.append(kReplacement);
  return out;
}

}  // namespace decant
