#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/code_points.h"
#include "text/vocabulary.h"

namespace decant {
namespace {

/// The byte at `depth` as a number from 0, or -1 past the end, so that shorter texts come first.
int ByteAt(const std::string& text, size_t depth) {
  return depth < text.size() ? static_cast<uint8_t>(text[depth]) : -1;
}

}  // namespace

Expected<AddedTokens> AddedTokens::Create(std::vector<Token> tokens) {
  AddedTokens added;
  added.tokens_ = std::move(tokens);
  std::sort(added.tokens_.begin(), added.tokens_.end(),
            [](const Token& a, const Token& b) { return a.text < b.text; });
  const Token* last = nullptr;
  size_t firsts = 0;
  for (const Token& token : added.tokens_) {
    if (token.text.empty()) {
      return InvalidArgument("added token {} is empty once normalised", token.rule.id);
    }
    if (token.text.size() > kMaxTextBytes) {
      return InvalidArgument("added token {} has {} bytes; at most {} are allowed", token.rule.id,
                             token.text.size(), kMaxTextBytes);
    }
    if (last != nullptr && last->text == token.text) {
      return InvalidArgument("added tokens {} and {} are both {}", last->rule.id, token.rule.id,
                             QuoteToken(token.text));
    }
    last = &token;
    bool& begins = added.begins_[static_cast<uint8_t>(token.text[0])];
    firsts += begins ? 0 : 1;
    begins = true;
  }
  if (firsts == 1) added.only_first_byte_ = last->text[0];
  return added;
}

size_t AddedTokens::FindFirstByte(std::string_view text, size_t from) const {
  if (tokens_.empty()) return std::string_view::npos;
  if (only_first_byte_) return text.find(*only_first_byte_, from);
  while (from < text.size() && !begins_[static_cast<uint8_t>(text[from])]) ++from;
  return from < text.size() ? from : std::string_view::npos;
}

std::optional<AddedTokens::Match> AddedTokens::Find(std::string_view text, size_t from) const {
  for (size_t begin = FindFirstByte(text, from); begin != std::string_view::npos;
       begin = FindFirstByte(text, begin + 1)) {
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
    if (low->text.size() == depth) {
      longest = Match{begin, depth, &*low};
      ++low;
    }
    if (begin + depth == text.size()) break;
    const int byte = static_cast<uint8_t>(text[begin + depth]);
    low = std::partition_point(low, high,
                               [&](const Token& t) { return ByteAt(t.text, depth) < byte; });
    high = std::partition_point(low, high,
                                [&](const Token& t) { return ByteAt(t.text, depth) == byte; });
  }
  return longest;
}

std::optional<int32_t> AddedTokens::IdOf(std::string_view text) const {
  const auto it = std::lower_bound(tokens_.begin(), tokens_.end(), text,
                                   [](const Token& t, std::string_view x) { return t.text < x; });
  if (it == tokens_.end() || it->text != text) return std::nullopt;
  return it->rule.id;
}

std::optional<AddedTokens::Section> AddedTokens::Sections::Next() {
  if (pending_) return std::exchange(pending_, std::nullopt);
  while (!done_) {
    const Section text{covered_, text_.size(), std::nullopt};
    const std::optional<Section> token = NextToken();
    if (!token) {
      done_ = true;
      if (text.begin < text.end) return text;
      break;
    }
    covered_ = token->end;
    // The reference drops a token whose text another one took.
    const bool empty = token->begin >= token->end;
    if (text.begin < token->begin) {
      if (!empty) pending_ = token;
      return Section{text.begin, token->begin, std::nullopt};
    }
    if (!empty) return token;
  }
  return std::nullopt;
}

std::optional<AddedTokens::Section> AddedTokens::Sections::NextToken() {
  while (const std::optional<Match> match = tokens_->Find(text_, from_)) {
    from_ = match->begin + match->length;
    const AddedTokenRule& rule = match->token->rule;
    // A token that is passed over still hides what overlaps it, as in the reference.
    if (match->token->control && IsText(*match)) continue;
    if (rule.single_word) {
      const std::string_view before = text_.substr(0, match->begin);
      const std::string_view after = text_.substr(from_);
      if (!before.empty() && (ClassesOfLast(before) & kWordClass) != 0) continue;
      if (!after.empty() && (ClassesOfFirst(after) & kWordClass) != 0) continue;
    }
    Section section{match->begin, from_, rule.id};
    if (rule.left_strip) section.begin = std::max(SpaceBegin(section.begin), covered_);
    if (rule.right_strip) section.end = SpaceEnd(section.end);
    return section;
  }
  return std::nullopt;
}

bool AddedTokens::Sections::IsText(const Match& match) {
  if (policy_ == SpecialTokens::kAsText) return true;
  while (!as_text_.empty() && as_text_.front().end <= match.begin) as_text_ = as_text_.subspan(1);
  return !as_text_.empty() && as_text_.front().begin < match.begin + match.length;
}

/// Where the white space before `end` begins, or what the last token covered ends.
size_t AddedTokens::Sections::SpaceBegin(size_t end) const {
  while (end > covered_) {
    const std::string_view before = text_.substr(0, end);
    if ((ClassesOfLast(before) & kSpaceClass) == 0) break;
    end -= LengthOfLast(before);
  }
  return end;
}

/// Where the white space from `begin` on ends. Tokens of white space that take what follows would
/// ask about the same run again and again.
size_t AddedTokens::Sections::SpaceEnd(size_t begin) {
  if (begin >= space_begin_ && begin <= space_end_) return space_end_;
  space_begin_ = begin;
  space_end_ = begin;
  while (space_end_ < text_.size() &&
         (ClassesOfFirst(text_.substr(space_end_)) & kSpaceClass) != 0) {
    space_end_ += LengthOfLead(text_[space_end_]);
  }
  return space_end_;
}

}  // namespace decant
