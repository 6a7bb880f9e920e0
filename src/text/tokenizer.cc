#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/byte_symbols.h"
#include "text/nfc.h"
#include "text/utf8.h"

namespace decant {
namespace {

bool IsControl(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUnknown;
}

bool IsAdded(TokenType type) { return IsControl(type) || type == TokenType::kUserDefined; }

/// A vocabulary's string for a message: short, and UTF-8 whatever it holds.
std::string Quote(std::string_view text) {
  constexpr size_t kShown = 64;
  return fmt::format("'{}'{}", RepairUtf8(text.substr(0, kShown)),
                     text.size() > kShown ? "..." : "");
}

Status CheckTokens(const TokenizerData& data) {
  if (data.tokens.empty()) return InvalidArgument("the vocabulary has no tokens");
  if (data.tokens.size() > Tokenizer::kMaxTokens) {
    return InvalidArgument("the vocabulary has {} tokens; at most {} are allowed",
                           data.tokens.size(), Tokenizer::kMaxTokens);
  }
  if (data.types.size() != data.tokens.size()) {
    return InvalidArgument("the vocabulary has {} tokens but {} token types", data.tokens.size(),
                           data.types.size());
  }
  size_t total = 0;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string& token = data.tokens[id];
    if (token.empty()) return InvalidArgument("token {} is empty", id);
    if (token.size() > Tokenizer::kMaxTokenBytes) {
      return InvalidArgument("token {} has {} bytes; at most {} are allowed", id, token.size(),
                             Tokenizer::kMaxTokenBytes);
    }
    total += token.size();
    if (total > Tokenizer::kMaxTotalBytes) {
      return InvalidArgument("the tokens have more than {} bytes together",
                             Tokenizer::kMaxTotalBytes);
    }
    if (!IsUtf8(token)) return InvalidArgument("token {}, {}, is not UTF-8", id, Quote(token));
    const TokenType type = data.types[id];
    if (type < TokenType::kNormal || type > TokenType::kUnused) {
      return InvalidArgument("token {} has no type: {}", id, static_cast<int>(type));
    }
  }
  return {};
}

Status CheckMarkers(const TokenizerData& data) {
  const auto in_range = [&](int32_t id) {
    return id >= 0 && static_cast<size_t>(id) < data.tokens.size();
  };
  if (data.bos && !in_range(*data.bos)) {
    return InvalidArgument("the bos token is {}, but ids are 0 to {}", *data.bos,
                           data.tokens.size() - 1);
  }
  for (const int32_t id : data.eos) {
    if (!in_range(id)) {
      return InvalidArgument("an eos token is {}, but ids are 0 to {}", id, data.tokens.size() - 1);
    }
  }
  if (data.add_bos && !data.bos) {
    return InvalidArgument("prompts must begin with a bos token, but there is none");
  }
  return {};
}

Expected<StringIndex> IndexSpellings(const TokenizerData& data) {
  StringIndex ids(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const int32_t first = ids.Add(data.tokens[id], static_cast<int32_t>(id));
    if (static_cast<size_t>(first) != id) {
      return InvalidArgument("tokens {} and {} are both {}", first, id, Quote(data.tokens[id]));
    }
  }
  return ids;
}

/// The id of `spelling`, which must be a normal token, as a part (`role`) of merge number `rank`.
Expected<int32_t> NormalId(const TokenizerData& data, const StringIndex& ids,
                           std::string_view spelling, size_t rank, std::string_view role) {
  const std::optional<int32_t> id = ids.Find(spelling);
  if (!id) {
    return InvalidArgument("merge {}, {}: its {}, {}, is not in the vocabulary", rank,
                           Quote(data.merges[rank]), role, Quote(spelling));
  }
  if (data.types[static_cast<size_t>(*id)] != TokenType::kNormal) {
    return InvalidArgument("merge {}, {}: its {}, {}, is token {}, which is not a normal token",
                           rank, Quote(data.merges[rank]), role, Quote(spelling), *id);
  }
  return *id;
}

Expected<BpeMerger> BuildMerger(const TokenizerData& data, const StringIndex& ids) {
  // Every merge but those that make the same token in another way makes a new one.
  if (data.merges.size() > Tokenizer::kMaxTokens) {
    return InvalidArgument("the vocabulary has {} merges; at most {} are allowed",
                           data.merges.size(), Tokenizer::kMaxTokens);
  }
  BpeMerger merger(data.merges.size());
  std::string joined;
  for (size_t rank = 0; rank < data.merges.size(); ++rank) {
    const std::string_view merge = data.merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      return InvalidArgument("merge {}, {}, is not two tokens with one space between", rank,
                             Quote(merge));
    }
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    DECANT_ASSIGN_OR_RETURN(const int32_t left_id, NormalId(data, ids, left, rank, "left side"));
    DECANT_ASSIGN_OR_RETURN(const int32_t right_id, NormalId(data, ids, right, rank, "right side"));
    DECANT_ASSIGN_OR_RETURN(const int32_t merged_id, NormalId(data, ids, joined, rank, "result"));
    if (!merger.Add(left_id, right_id, static_cast<uint32_t>(rank), merged_id)) {
      return InvalidArgument("merge {}, {}, occurs twice", rank, Quote(merge));
    }
  }
  return merger;
}

}  // namespace

Expected<TokenType> TokenTypeFromGguf(int64_t number) {
  if (number < static_cast<int64_t>(TokenType::kNormal) ||
      number > static_cast<int64_t>(TokenType::kUnused)) {
    return InvalidArgument("token type {}; a byte-level vocabulary has types 1 to 5", number);
  }
  return static_cast<TokenType>(number);
}

Tokenizer::Tokenizer(PieceSplitter splitter, BpeMerger merger)
    : splitter_(std::move(splitter)), merger_(std::move(merger)) {}

Expected<Tokenizer> Tokenizer::Create(TokenizerData data) {
  DECANT_RETURN_IF_ERROR(CheckTokens(data));
  DECANT_RETURN_IF_ERROR(CheckMarkers(data));
  DECANT_ASSIGN_OR_RETURN(const StringIndex ids, IndexSpellings(data));
  DECANT_ASSIGN_OR_RETURN(BpeMerger merger, BuildMerger(data, ids));
  DECANT_ASSIGN_OR_RETURN(PieceSplitter splitter, PieceSplitter::Create(data.pre_tokenizer));
  Tokenizer tokenizer(std::move(splitter), std::move(merger));
  tokenizer.pre_tokenizer_ = data.pre_tokenizer;
  tokenizer.StoreBytes(data);
  tokenizer.types_ = std::move(data.types);
  tokenizer.bos_ = data.bos;
  tokenizer.eos_ = std::move(data.eos);
  tokenizer.add_bos_ = data.add_bos;
  tokenizer.IndexTokens();
  return tokenizer;
}

void Tokenizer::StoreBytes(const TokenizerData& data) {
  offsets_.reserve(data.tokens.size() + 1);
  offsets_.push_back(0);
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string& spelling = data.tokens[id];
    const std::string bytes = IsAdded(data.types[id]) ? spelling : BytesOfSpelling(spelling);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
}

void Tokenizer::IndexTokens() {
  std::vector<std::pair<std::string, int32_t>> added;
  normal_ = StringIndex(types_.size());
  symbols_.fill(-1);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string_view bytes = TokenBytes(id);
    if (IsAdded(type(id))) added.emplace_back(bytes, id);
    if (type(id) != TokenType::kNormal) continue;
    normal_.Add(bytes, id);
    if (bytes.size() == 1) symbols_[static_cast<uint8_t>(bytes[0])] = id;
  }
  added_ = AddedTokens(std::move(added));

  whole_.resize(types_.size());
  std::vector<int32_t> symbols;
  std::vector<int32_t> merged;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (type(id) != TokenType::kNormal) continue;
    merged.clear();
    AppendPiece(TokenBytes(id), symbols, merged);
    whole_[static_cast<size_t>(id)] = merged.size() == 1 && merged[0] == id;
  }
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, SpecialTokens policy) const {
  std::string repaired;
  if (!IsUtf8(text)) {
    repaired = RepairUtf8(text);
    text = repaired;
  }
  std::vector<int32_t> out;
  size_t ordinary = 0;  // Where the text begins that is not encoded yet.
  for (size_t from = 0; const auto match = added_.Find(text, from);) {
    from = match->begin + match->length;
    if (policy == SpecialTokens::kAsText && is_control(match->id)) continue;
    EncodeOrdinary(text.substr(ordinary, match->begin - ordinary), out);
    out.push_back(match->id);
    ordinary = from;
  }
  EncodeOrdinary(text.substr(ordinary), out);
  return out;
}

void Tokenizer::EncodeOrdinary(std::string_view text, std::vector<int32_t>& out) const {
  std::string normalized;
  if (pre_tokenizer_ == PreTokenizer::kQwen2 && !IsPlainlyNfc(text)) {
    normalized = NormalizeNfc(text);
    text = normalized;
  }
  std::vector<int32_t> symbols;
  splitter_.Split(text, [&](std::string_view piece) {
    const std::optional<int32_t> id = normal_.Find(piece);
    if (id && whole_[static_cast<size_t>(*id)]) {
      out.push_back(*id);
    } else {
      AppendPiece(piece, symbols, out);
    }
  });
}

void Tokenizer::AppendPiece(std::string_view piece, std::vector<int32_t>& symbols,
                            std::vector<int32_t>& out) const {
  symbols.clear();
  for (const char c : piece) {
    const int32_t id = symbols_[static_cast<uint8_t>(c)];
    if (id >= 0) symbols.push_back(id);
  }
  merger_.Merge(symbols);
  out.insert(out.end(), symbols.begin(), symbols.end());
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens, ControlTokens control) const {
  std::string bytes;
  for (const int32_t token : tokens) {
    if (control == ControlTokens::kShow || !is_control(token)) bytes.append(TokenBytes(token));
  }
  return RepairUtf8(bytes);
}

std::string_view Tokenizer::TokenBytes(int32_t token) const {
  if (token < 0 || token >= vocab_size()) return {};
  const auto id = static_cast<size_t>(token);
  return {bytes_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view bytes) const {
  if (const std::optional<int32_t> id = added_.IdOf(bytes)) return id;
  return normal_.Find(bytes);
}

TokenType Tokenizer::type(int32_t token) const {
  if (token < 0 || token >= vocab_size()) return TokenType::kUnused;
  return types_[static_cast<size_t>(token)];
}

bool Tokenizer::is_control(int32_t token) const { return IsControl(type(token)); }

bool Tokenizer::is_eos(int32_t token) const {
  return std::find(eos_.begin(), eos_.end(), token) != eos_.end();
}

}  // namespace decant
