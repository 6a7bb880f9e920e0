#include "text/byte_symbols.h"

#include <array>

#include "text/utf8.h"

namespace decant {
namespace {

constexpr char32_t kSymbolEnd = 0x144;

struct SymbolTables {
  std::array<char32_t, 256> symbol{};
  std::array<int16_t, kSymbolEnd> byte{};  ///< -1: no symbol.
};

constexpr bool StandsForItself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) ||
         (byte >= 0xAE && byte <= 0xFF);
}

constexpr SymbolTables MakeTables() {
  SymbolTables tables;
  tables.byte.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t symbol = StandsForItself(byte) ? static_cast<char32_t>(byte) : next++;
    tables.symbol[static_cast<size_t>(byte)] = symbol;
    tables.byte[symbol] = static_cast<int16_t>(byte);
  }
  return tables;
}

constexpr SymbolTables kTables = MakeTables();

}  // namespace

char32_t SymbolOfByte(uint8_t byte) { return kTables.symbol[byte]; }

std::optional<uint8_t> ByteOfSymbol(char32_t code_point) {
  if (code_point >= kSymbolEnd || kTables.byte[code_point] < 0) return std::nullopt;
  return static_cast<uint8_t>(kTables.byte[code_point]);
}

std::string BytesOfSpelling(std::string_view spelling) {
  std::string bytes;
  for (std::string_view rest = spelling; !rest.empty();) {
    const Utf8Unit unit = ReadUtf8(rest);
    const std::optional<uint8_t> byte = ByteOfSymbol(unit.code_point);
    if (!byte) return std::string(spelling);
    bytes.push_back(static_cast<char>(*byte));
    rest.remove_prefix(unit.length);
  }
  return bytes;
}

}  // namespace decant
