#pragma once

#include <cstddef>
#include <string_view>

namespace decant {

/// Whether `given`, what a client sent, is `key`. Reads every byte of `given` whatever it has in
/// common with `key`, so that the time tells nothing of it. `Bytes` is a std::string_view; tests
/// give one that counts.
template <typename Bytes>
bool SameKey(const Bytes& given, std::string_view key) {
  size_t difference = given.size() ^ key.size();
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i] ^ expected);
  }
  return difference == 0;
}

}  // namespace decant
