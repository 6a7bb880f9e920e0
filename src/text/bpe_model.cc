#include "text/bpe_model.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "text/byte_symbols.h"
#include "text/code_points.h"
#include "text/utf8.h"

namespace decant {
namespace {

/// A piece that was encoded before. Small pieces of few tokens are nearly all that recur.
struct CachedPiece {
  static constexpr size_t kMaxBytes = 39;
  static constexpr size_t kMaxTokens = 16;

  uint64_t model = 0;  ///< Models count from 1.
  uint64_t hash = 0;
  uint8_t bytes = 0;
  uint8_t tokens = 0;
  char text[kMaxBytes];
  int32_t ids[kMaxTokens];
};

/// This thread's pieces, by hash; a newer one takes an older one's place.
class PieceCache {
 public:
  static PieceCache& OfThread() {
    thread_local PieceCache cache;
    return cache;
  }

  CachedPiece& At(uint64_t hash) { return pieces_[hash % kPieces]; }

 private:
  static constexpr size_t kPieces = size_t{1} << 14;
  std::vector<CachedPiece> pieces_ = std::vector<CachedPiece>(kPieces);
};

std::atomic<uint64_t> models_made{0};

/// What a token holds of a piece of text.
std::string TextOf(std::string_view spelling, bool byte_level) {
  return byte_level ? BytesOfSpelling(spelling) : std::string(spelling);
}

/// Whether every character is a byte symbol: else no byte-level piece can hold it.
bool IsByteSpelling(std::string_view spelling) {
  while (!spelling.empty()) {
    const Utf8Unit unit = ReadUtf8(spelling);
    if (!ByteOfSymbol(unit.code_point)) return false;
    spelling.remove_prefix(unit.length);
  }
  return true;
}

Status CheckMerge(const Vocabulary& vocabulary, const std::vector<bool>& in_model,
                  const MergeRule& merge) {
  const auto check = [&](int32_t id, std::string_view role) -> Status {
    if (!vocabulary.Has(id)) {
      return InvalidArgument("merge {}: its {} is token {}, which does not exist", merge.rank, role,
                             id);
    }
    if (in_model[static_cast<size_t>(id)]) return {};
    return InvalidArgument(
        "merge {}, '{} {}': its {}, {}, is token {}, which is not a normal token", merge.rank,
        vocabulary.Spelling(merge.left), vocabulary.Spelling(merge.right), role,
        QuoteToken(vocabulary.Spelling(id)), id);
  };
  DECANT_RETURN_IF_ERROR(check(merge.left, "left side"));
  DECANT_RETURN_IF_ERROR(check(merge.right, "right side"));
  return check(merge.merged, "result");
}

}  // namespace

BpeModel::BpeModel(const ModelRules& rules, size_t merges)
    : rules_(rules), merger_(merges), number_(++models_made) {}

Expected<BpeModel> BpeModel::Create(const Vocabulary& vocabulary, const std::vector<bool>& in_model,
                                    const ModelRules& rules, const std::vector<MergeRule>& merges) {
  if (rules.unknown && !vocabulary.Has(*rules.unknown)) {
    return InvalidArgument("the unknown token is {}, but ids are 0 to {}", *rules.unknown,
                           vocabulary.size() - 1);
  }
  BpeModel model(rules, merges.size());
  for (const MergeRule& merge : merges) {
    DECANT_RETURN_IF_ERROR(CheckMerge(vocabulary, in_model, merge));
    if (!model.merger_.Add(merge.left, merge.right, merge.rank, merge.merged)) {
      return InvalidArgument("merge {}, '{} {}', occurs twice", merge.rank,
                             vocabulary.Spelling(merge.left), vocabulary.Spelling(merge.right));
    }
  }
  model.IndexTokens(vocabulary, in_model);
  model.IndexFallback(vocabulary, in_model);
  model.FindCut(vocabulary, merges);
  return model;
}

void BpeModel::IndexTokens(const Vocabulary& vocabulary, const std::vector<bool>& in_model) {
  low_symbols_.fill(-1);
  std::vector<std::pair<size_t, int32_t>> ends;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string_view spelling = vocabulary.Spelling(id);
    if (!in_model[static_cast<size_t>(id)]) continue;
    if (rules_.byte_level && !IsByteSpelling(spelling)) continue;
    const std::string text = TextOf(spelling, rules_.byte_level);
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    ends.emplace_back(bytes_.size(), id);
    if (rules_.byte_level) {
      if (text.size() == 1) low_symbols_[static_cast<uint8_t>(text[0])] = id;
      continue;
    }
    const Utf8Unit unit = ReadUtf8(text);
    if (unit.length != text.size()) continue;
    if (unit.code_point < low_symbols_.size()) {
      low_symbols_[unit.code_point] = id;
    } else {
      symbols_[unit.code_point] = id;
    }
  }
  whole_ = StringIndex(ends.size());
  size_t begin = 0;
  for (const auto& [end, id] : ends) {
    whole_.Add({bytes_.data() + begin, end - begin}, id);
    begin = end;
  }
}

void BpeModel::IndexFallback(const Vocabulary& vocabulary, const std::vector<bool>& in_model) {
  fallback_.fill(-1);
  if (!rules_.byte_fallback) return;
  for (size_t byte = 0; byte < fallback_.size(); ++byte) {
    const std::optional<int32_t> id = vocabulary.Find(fmt::format("<0x{:02X}>", byte));
    if (id && in_model[static_cast<size_t>(*id)]) fallback_[byte] = *id;
  }
}

/// Where words are marked by a character in front, nothing merges across the place before it, and
/// a text without a splitter can be cut there: words recur, whole texts do not.
void BpeModel::FindCut(const Vocabulary& vocabulary, const std::vector<MergeRule>& merges) {
  if (rules_.byte_level) return;
  for (const std::string_view mark : {"\u2581", " "}) {
    if (SymbolOf(ReadUtf8(mark).code_point) < 0) continue;
    const bool crossed = std::any_of(merges.begin(), merges.end(), [&](const MergeRule& merge) {
      const std::string_view text = vocabulary.Spelling(merge.merged);
      for (size_t at = text.find(mark, 1); at != std::string_view::npos;
           at = text.find(mark, at + 1)) {
        if (!text.substr(0, at).ends_with(mark)) return true;
      }
      return false;
    });
    if (!crossed) {
      cut_ = mark;
      return;
    }
  }
}

void BpeModel::Encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  if (cut_.empty()) return EncodeWord(piece, scratch, out);
  if (rules_.ignore_merges) {
    if (const std::optional<int32_t> id = whole_.Find(piece)) return out.push_back(*id);
  }
  for (size_t begin = 0; begin < piece.size();) {
    size_t end = begin;
    while (piece.substr(end).starts_with(cut_)) end += cut_.size();
    end = std::min(piece.find(cut_, end), piece.size());
    EncodeWord(piece.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

void BpeModel::EncodeWord(std::string_view word, Scratch& scratch,
                          std::vector<int32_t>& out) const {
  const uint64_t hash = HashOf(word);
  const bool small = word.size() <= CachedPiece::kMaxBytes;
  CachedPiece* cached = nullptr;
  if (small) {
    cached = &PieceCache::OfThread().At(hash);
    if (cached->hash == hash && cached->model == number_ && cached->bytes == word.size() &&
        std::memcmp(cached->text, word.data(), word.size()) == 0) {
      out.insert(out.end(), cached->ids, cached->ids + cached->tokens);
      return;
    }
  }
  const size_t before = out.size();
  const std::optional<int32_t> id = rules_.ignore_merges ? whole_.Find(word, hash) : std::nullopt;
  if (id) {
    out.push_back(*id);
  } else {
    Symbols(word, scratch.symbols);
    merger_.Merge(scratch.symbols);
    out.insert(out.end(), scratch.symbols.begin(), scratch.symbols.end());
  }
  const size_t tokens = out.size() - before;
  if (!small || tokens > CachedPiece::kMaxTokens) return;
  cached->model = number_;
  cached->hash = hash;
  cached->bytes = static_cast<uint8_t>(word.size());
  cached->tokens = static_cast<uint8_t>(tokens);
  std::memcpy(cached->text, word.data(), word.size());
  std::copy(out.end() - static_cast<ptrdiff_t>(tokens), out.end(), cached->ids);
}

int32_t BpeModel::SymbolOf(char32_t code_point) const {
  if (code_point < low_symbols_.size()) return low_symbols_[code_point];
  const auto it = symbols_.find(code_point);
  return it == symbols_.end() ? -1 : it->second;
}

void BpeModel::Symbols(std::string_view word, std::vector<int32_t>& symbols) const {
  symbols.clear();
  bool unknown = false;  // Whether an unknown token waits for what follows.
  const auto flush = [&] {
    if (std::exchange(unknown, false)) symbols.push_back(*rules_.unknown);
  };
  for (size_t at = 0; at < word.size();) {
    const size_t length = rules_.byte_level ? 1 : LengthOfLead(word[at]);
    const int32_t id = rules_.byte_level ? low_symbols_[static_cast<uint8_t>(word[at])]
                                         : SymbolOf(ReadUtf8(word.substr(at)).code_point);
    const std::string_view bytes = word.substr(at, length);
    at += length;
    if (id >= 0) {
      flush();
      symbols.push_back(id);
      continue;
    }
    const auto token_of = [&](char c) { return fallback_[static_cast<uint8_t>(c)]; };
    if (rules_.byte_fallback && !rules_.byte_level &&
        std::all_of(bytes.begin(), bytes.end(), [&](char c) { return token_of(c) >= 0; })) {
      // The reference lets a waiting unknown token follow these bytes.
      for (const char c : bytes) symbols.push_back(token_of(c));
      continue;
    }
    if (!rules_.unknown) continue;
    if (!rules_.fuse_unknown) flush();
    unknown = true;
  }
  flush();
}

}  // namespace decant
