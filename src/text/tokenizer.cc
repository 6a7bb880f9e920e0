#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/gguf_pre_tokenizer.h"
#include "text/utf8.h"

namespace decant {
namespace {

Status CheckId(const Vocabulary& vocabulary, std::string_view what, int32_t id) {
  if (vocabulary.Has(id)) return {};
  return InvalidArgument("{} is {}, but ids are 0 to {}", what, id, vocabulary.size() - 1);
}

Status CheckMarkers(const Vocabulary& vocabulary, const TokenizerData& data) {
  if (data.bos) DECANT_RETURN_IF_ERROR(CheckId(vocabulary, "the bos token", *data.bos));
  for (const int32_t id : data.eos) {
    DECANT_RETURN_IF_ERROR(CheckId(vocabulary, "an eos token", id));
  }
  for (const std::vector<int32_t>* around : {&data.prefix, &data.suffix}) {
    for (const int32_t id : *around) {
      DECANT_RETURN_IF_ERROR(CheckId(vocabulary, "a token around the text", id));
    }
  }
  if (data.add_bos && !data.bos) {
    return InvalidArgument("prompts must begin with a bos token, but there is none");
  }
  return {};
}

/// The tokens of a GGUF file that are cut out of text: it has no rules for them.
std::vector<AddedTokenRule> PlainAddedTokens(const Vocabulary& vocabulary) {
  std::vector<AddedTokenRule> rules;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.is_control(id) || vocabulary.type(id) == TokenType::kUserDefined) {
      rules.push_back({.id = id});
    }
  }
  return rules;
}

/// By id, whether text may become the token in another way than by naming it.
std::vector<bool> TokensOfText(const Vocabulary& vocabulary,
                               const std::vector<AddedTokenRule>& added) {
  std::vector<bool> in_model(static_cast<size_t>(vocabulary.size()));
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    in_model[static_cast<size_t>(id)] =
        !vocabulary.is_control(id) && vocabulary.type(id) != TokenType::kUnused;
  }
  for (const AddedTokenRule& rule : added) {
    if (vocabulary.Has(rule.id) && !rule.in_model) in_model[static_cast<size_t>(rule.id)] = false;
  }
  return in_model;
}

/// Merges that are spelled "left right".
Expected<std::vector<MergeRule>> ReadMerges(const Vocabulary& vocabulary,
                                            const std::vector<std::string>& merges) {
  std::vector<MergeRule> rules;
  rules.reserve(merges.size());
  std::string joined;
  for (const std::string_view merge : merges) {
    const size_t rank = rules.size();
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || merge.find(' ', space + 1) != std::string_view::npos) {
      return InvalidArgument("merge {}, {}, is not two tokens with one space between", rank,
                             QuoteToken(merge));
    }
    const auto find = [&](std::string_view role, std::string_view text) -> Expected<int32_t> {
      if (const std::optional<int32_t> id = vocabulary.Find(text)) return *id;
      return InvalidArgument("merge {}, {}: its {}, {}, is not in the vocabulary", rank,
                             QuoteToken(merge), role, QuoteToken(text));
    };
    const std::string_view left = merge.substr(0, space);
    const std::string_view right = merge.substr(space + 1);
    joined.assign(left).append(right);
    MergeRule rule{.rank = static_cast<uint32_t>(rank)};
    DECANT_ASSIGN_OR_RETURN(rule.left, find("left side", left));
    DECANT_ASSIGN_OR_RETURN(rule.right, find("right side", right));
    DECANT_ASSIGN_OR_RETURN(rule.merged, find("result", joined));
    rules.push_back(rule);
  }
  return rules;
}

}  // namespace

/// Takes pieces to the model.
class Tokenizer::ModelSink final : public PieceSink {
 public:
  ModelSink(const BpeModel& model, std::vector<int32_t>& out) : model_(&model), out_(&out) {}

  void Add(std::string_view piece) override { model_->Encode(piece, scratch_, *out_); }
  void AddToken(int32_t id) { out_->push_back(id); }

 private:
  const BpeModel* model_;
  BpeModel::Scratch scratch_;
  std::vector<int32_t>* out_;
};

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, Normalizer normalizer,
                     Splitter splitter, BpeModel model, Decoder decoder)
    : vocabulary_(std::move(vocabulary)),
      normalizer_(std::move(normalizer)),
      splitter_(std::move(splitter)),
      model_(std::move(model)),
      decoder_(std::move(decoder)) {}

Expected<Tokenizer> Tokenizer::Create(TokenizerData data) {
  if (data.merges.size() + data.merge_rules.size() > 16 * kMaxTokens) {
    return InvalidArgument("the vocabulary has {} merges; at most {} are allowed",
                           data.merges.size() + data.merge_rules.size(), 16 * kMaxTokens);
  }
  DECANT_ASSIGN_OR_RETURN(Vocabulary checked,
                          Vocabulary::Create(data.tokens, std::move(data.types)));
  auto vocabulary = std::make_unique<const Vocabulary>(std::move(checked));
  DECANT_RETURN_IF_ERROR(CheckMarkers(*vocabulary, data));
  TokenizerPipeline pipeline;
  if (data.pipeline) {
    pipeline = std::move(*data.pipeline);
  } else {
    pipeline = ByteLevelPipeline(data.pre_tokenizer);
    pipeline.added = PlainAddedTokens(*vocabulary);
  }
  if (!data.merges.empty()) {
    DECANT_ASSIGN_OR_RETURN(data.merge_rules, ReadMerges(*vocabulary, data.merges));
  }
  DECANT_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Create(pipeline.normalizers));
  DECANT_ASSIGN_OR_RETURN(Splitter splitter, Splitter::Create(pipeline.splits));
  DECANT_ASSIGN_OR_RETURN(BpeModel model,
                          BpeModel::Create(*vocabulary, TokensOfText(*vocabulary, pipeline.added),
                                           pipeline.model, data.merge_rules));
  DECANT_ASSIGN_OR_RETURN(Decoder decoder, Decoder::Create(pipeline.decoders));
  Tokenizer tokenizer(std::move(vocabulary), std::move(normalizer), std::move(splitter),
                      std::move(model), std::move(decoder));
  DECANT_RETURN_IF_ERROR(tokenizer.AddTokens(pipeline.added));
  DECANT_RETURN_IF_ERROR(tokenizer.StoreBytes());
  tokenizer.pre_tokenizer_ = data.pre_tokenizer;
  tokenizer.rules_ = pipeline.model;
  tokenizer.prefix_ = std::move(data.prefix);
  tokenizer.suffix_ = std::move(data.suffix);
  tokenizer.bos_ = data.bos;
  tokenizer.eos_ = std::move(data.eos);
  tokenizer.add_bos_ = data.add_bos;
  return tokenizer;
}

Status Tokenizer::AddTokens(const std::vector<AddedTokenRule>& rules) {
  std::vector<AddedTokens::Token> plain;
  std::vector<AddedTokens::Token> normalized;
  std::string storage;
  for (const AddedTokenRule& rule : rules) {
    DECANT_RETURN_IF_ERROR(CheckId(*vocabulary_, "an added token", rule.id));
    const std::string_view spelling = vocabulary_->Spelling(rule.id);
    AddedTokens::Token token{
        .text = std::string(spelling), .rule = rule, .control = vocabulary_->is_control(rule.id)};
    if (rule.normalized) {
      token.text = normalizer_.Apply(spelling, storage);
      if (token.text != spelling) normalized_spellings_.emplace_back(rule.id, token.text);
    }
    (rule.normalized ? normalized : plain).push_back(std::move(token));
  }
  std::sort(normalized_spellings_.begin(), normalized_spellings_.end());
  DECANT_ASSIGN_OR_RETURN(added_, AddedTokens::Create(std::move(plain)));
  DECANT_ASSIGN_OR_RETURN(added_normalized_, AddedTokens::Create(std::move(normalized)));
  return {};
}

Status Tokenizer::StoreBytes() {
  offsets_.reserve(static_cast<size_t>(vocab_size()) + 1);
  offsets_.push_back(0);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    const std::string bytes = decoder_.TokenBytes(Decoded(id));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    if (bytes_.size() > Vocabulary::kMaxTotalBytes) {
      return InvalidArgument("decoded, the tokens have more than {} bytes together",
                             Vocabulary::kMaxTotalBytes);
    }
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
  }
  return {};
}

void Tokenizer::EncodeSections(AddedTokens::Sections sections, std::string_view text,
                               SpecialTokens policy, ModelSink& sink) const {
  while (const std::optional<AddedTokens::Section> section = sections.Next()) {
    if (section->id) {
      sink.AddToken(*section->id);
    } else {
      EncodeSection(text.substr(section->begin, section->end - section->begin), policy,
                    section->begin == 0, sink);
    }
  }
}

std::vector<int32_t> Tokenizer::EncodePrompt(std::string_view text,
                                             std::span<const TextRange> as_text) const {
  if (!IsUtf8(text)) return Encode(text, SpecialTokens::kAsText);
  // Where something is to stay text, control tokens are looked for before normalisation only.
  const SpecialTokens inner = as_text.empty() ? SpecialTokens::kParse : SpecialTokens::kAsText;
  std::vector<int32_t> out;
  ModelSink sink(model_, out);
  EncodeSections(AddedTokens::Sections(added_, text, SpecialTokens::kParse, as_text), text, inner,
                 sink);
  return out;
}

std::vector<int32_t> Tokenizer::Encode(std::string_view text, SpecialTokens policy,
                                       AddedAround around) const {
  std::string repaired;
  if (!IsUtf8(text)) {
    repaired = RepairUtf8(text);
    text = repaired;
  }
  std::vector<int32_t> out;
  if (around == AddedAround::kPrefixAndSuffix) out = prefix_;
  ModelSink sink(model_, out);
  EncodeSections(AddedTokens::Sections(added_, text, policy), text, policy, sink);
  if (around == AddedAround::kPrefixAndSuffix) {
    out.insert(out.end(), suffix_.begin(), suffix_.end());
  }
  return out;
}

void Tokenizer::EncodeSection(std::string_view text, SpecialTokens policy, bool at_start,
                              ModelSink& sink) const {
  std::string storage;
  text = normalizer_.Apply(text, storage);
  AddedTokens::Sections sections(added_normalized_, text, policy);
  while (const std::optional<AddedTokens::Section> section = sections.Next()) {
    if (section->id) {
      sink.AddToken(*section->id);
    } else {
      splitter_.Split(text.substr(section->begin, section->end - section->begin),
                      at_start && section->begin == 0, sink);
    }
  }
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens, ControlTokens control) const {
  std::string text;
  DecodeStream stream(decoder_);
  for (const int32_t token : tokens) {
    if (!vocabulary_->Has(token)) continue;
    if (control == ControlTokens::kShow || !is_control(token)) stream.Push(Decoded(token), text);
  }
  stream.Finish(text);
  return text;
}

std::string_view Tokenizer::Decoded(int32_t token) const {
  const auto it =
      std::lower_bound(normalized_spellings_.begin(), normalized_spellings_.end(), token,
                       [](const auto& entry, int32_t id) { return entry.first < id; });
  if (it != normalized_spellings_.end() && it->first == token) return it->second;
  return vocabulary_->Spelling(token);
}

std::string_view Tokenizer::TokenBytes(int32_t token) const {
  if (!vocabulary_->Has(token)) return {};
  const auto id = static_cast<size_t>(token);
  return {bytes_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
}

std::optional<int32_t> Tokenizer::TokenId(std::string_view bytes) const {
  if (const std::optional<int32_t> id = added_.IdOf(bytes)) return id;
  if (const std::optional<int32_t> id = added_normalized_.IdOf(bytes)) return id;
  return model_.Find(bytes);
}

std::string_view Tokenizer::kind() const {
  if (rules_.byte_level) return "byte-level BPE";
  return rules_.byte_fallback ? "BPE with byte fallback" : "BPE of characters";
}

bool Tokenizer::is_eos(int32_t token) const {
  return std::find(eos_.begin(), eos_.end(), token) != eos_.end();
}

}  // namespace decant
