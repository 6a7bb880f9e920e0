#include "text/added_tokens.h"

#include <algorithm>

namespace decant {
namespace {

/// The byte at `depth` as a number from 0, or -1 past the end, so that shorter texts come first.
int ByteAt(const std::string& text, size_t depth) {
  return depth < text.size() ? static_cast<uint8_t>(text[depth]) : -1;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end());
  for (const auto& [text, id] : tokens_) {
    if (first_bytes_.empty() || first_bytes_.back() != text[0]) first_bytes_.push_back(text[0]);
  }
}

std::optional<AddedTokens::Match> AddedTokens::Find(std::string_view text, size_t from) const {
  for (size_t begin = text.find_first_of(first_bytes_, from); begin != std::string_view::npos;
       begin = text.find_first_of(first_bytes_, begin + 1)) {
    if (const std::optional<Match> match = LongestAt(text, begin)) return match;
  }
  return std::nullopt;
}

std::optional<AddedTokens::Match> AddedTokens::LongestAt(std::string_view text,
                                                         size_t begin) const {
  // [low, high): the tokens whose first `depth` bytes stand at `begin`.
  std::optional<Match> longest;
  auto low = tokens_.begin();
  auto high = tokens_.end();
  for (size_t depth = 0; low != high; ++depth) {
    if (low->first.size() == depth) {
      longest = Match{begin, depth, low->second};
      ++low;
    }
    if (begin + depth == text.size()) break;
    const int byte = static_cast<uint8_t>(text[begin + depth]);
    low = std::partition_point(low, high,
                               [&](const auto& t) { return ByteAt(t.first, depth) < byte; });
    high = std::partition_point(low, high,
                                [&](const auto& t) { return ByteAt(t.first, depth) == byte; });
  }
  return longest;
}

std::optional<int32_t> AddedTokens::IdOf(std::string_view text) const {
  const auto it = std::lower_bound(tokens_.begin(), tokens_.end(), text,
                                   [](const auto& t, std::string_view x) { return t.first < x; });
  if (it == tokens_.end() || it->first != text) return std::nullopt;
  return it->second;
}

}  // namespace decant
