#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace decant {

/// Finds the tokens that stand for themselves in text (control and user-defined tokens), leftmost
/// first, the longest where several begin at the same place: as the Python `tokenizers` library.
class AddedTokens {
 public:
  struct Match {
    size_t begin = 0;   ///< Byte offset in the text.
    size_t length = 0;  ///< Bytes.
    int32_t id = 0;
  };

  AddedTokens() = default;
  /// (text, id) of each token; texts must be distinct and not empty.
  explicit AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  /// The first match that begins at `from` or later. Takes O(length of the longest token) per byte.
  std::optional<Match> Find(std::string_view text, size_t from) const;

  /// The id of a token by its whole text.
  std::optional<int32_t> IdOf(std::string_view text) const;

 private:
  std::optional<Match> LongestAt(std::string_view text, size_t begin) const;

  std::vector<std::pair<std::string, int32_t>> tokens_;  ///< Sorted by text.
  std::string first_bytes_;                              ///< Distinct first bytes of all texts.
};

}  // namespace decant
