#include "text/tokenizer_json.h"

#include <algorithm>
#include <utility>

#include "text/string_index.h"
#include "text/tokenizer_json_file.h"
#include "text/tokenizer_json_parts.h"
#include "text/vocabulary.h"

namespace decant {
namespace {

/// Ids that no token has, beyond as many as there are tokens: more are an attack on memory.
constexpr uint32_t kMostGaps = 1 << 18;

/// Builds TokenizerData from a file's parts, one after the other.
class DataBuilder {
 public:
  explicit DataBuilder(TokenizerJsonFile& file) : file_(&file), root_(file.rest, "tokenizer") {}

  Expected<TokenizerData> Build() {
    DECANT_RETURN_IF_ERROR(CheckModel());
    TokenizerPipeline& pipeline = data_.pipeline.emplace();
    DECANT_ASSIGN_OR_RETURN(pipeline.normalizers, ReadNormalizer(Section("normalizer")));
    DECANT_ASSIGN_OR_RETURN(pipeline.splits, ReadPreTokenizer(Section("pre_tokenizer")));
    DECANT_ASSIGN_OR_RETURN(pipeline.decoders, ReadDecoder(Section("decoder")));
    pipeline.model.byte_level =
        !pipeline.splits.empty() && pipeline.splits.back().kind == SplitStep::Kind::kByteLevel;
    DECANT_RETURN_IF_ERROR(ReadVocab());
    DECANT_RETURN_IF_ERROR(ReadMerges());
    DECANT_RETURN_IF_ERROR(ReadModelRules(pipeline.model));
    DECANT_RETURN_IF_ERROR(ReadAddedTokens(pipeline.added));
    DECANT_ASSIGN_OR_RETURN(AroundText around, ReadPostProcessor(Section("post_processor")));
    if (around.prefix.size() == 1) {
      data_.bos = around.prefix[0];
      data_.add_bos = true;
    }
    data_.prefix = std::move(around.prefix);
    data_.suffix = std::move(around.suffix);
    return std::move(data_);
  }

 private:
  JsonSection Section(const std::string& name) const {
    const JsonSection member = root_.Member(name);
    return {member.value(), name};
  }

  Status CheckModel() const {
    const JsonSection version = Section("version");
    if (!version.is_null()) {
      DECANT_ASSIGN_OR_RETURN(const std::string number, version.String());
      if (number != "1.0") return version.Unsupported(fmt::format("version '{}'", number));
    }
    const JsonSection model = Section("model");
    if (!model.value().is_object()) return DataLoss("model is missing or not an object");
    const JsonSection type = model.Member("type");
    if (!type.is_null()) {
      DECANT_ASSIGN_OR_RETURN(const std::string name, type.String());
      if (name != "BPE") {
        return model.Unsupported(fmt::format("the model type '{}' (supported: BPE)", name));
      }
    }
    if (!file_->has_vocab) return DataLoss("model.vocab is missing or not an object");
    if (!file_->has_merges) return DataLoss("model.merges is missing or not a list");
    for (const std::string name : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      const JsonSection affix = model.Member(name);
      if (affix.is_null()) continue;
      DECANT_ASSIGN_OR_RETURN(const std::string text, affix.String());
      if (!text.empty()) return model.Unsupported(fmt::format("{} '{}'", name, text));
    }
    const JsonSection dropout = model.Member("dropout");
    if (!dropout.is_null() && !(dropout.value().is_number() && dropout.value() == 0)) {
      return model.Unsupported("dropout other than 0");
    }
    return {};
  }

  /// Gives each id its spelling. Of a spelling that occurs twice, the last id counts.
  Status ReadVocab() {
    std::vector<std::pair<std::string, uint32_t>>& vocab = file_->vocab;
    if (vocab.empty()) return DataLoss("model.vocab is empty");
    index_ = StringIndex(vocab.size());
    size_t distinct = 0;
    for (size_t i = 0; i < vocab.size(); ++i) {
      const auto first = static_cast<size_t>(index_.Add(vocab[i].first, static_cast<int32_t>(i)));
      distinct += first == i ? 1 : 0;
      vocab[first].second = vocab[i].second;
    }
    uint32_t largest = 0;
    for (size_t i = 0; i < vocab.size(); ++i) {
      if (IsFirst(i)) largest = std::max(largest, vocab[i].second);
    }
    model_size_ = distinct;
    if (largest >= distinct + kMostGaps || largest >= Vocabulary::kMaxTokens) {
      return DataLoss("model.vocab has {} tokens, but an id is {}", distinct, largest);
    }
    ids_.assign(vocab.size(), 0);
    data_.tokens.resize(size_t{largest} + 1);
    data_.types.assign(size_t{largest} + 1, TokenType::kUnused);
    for (size_t i = 0; i < vocab.size(); ++i) {
      if (!IsFirst(i)) continue;
      const uint32_t id = vocab[i].second;
      ids_[i] = static_cast<int32_t>(id);
      if (data_.types[id] != TokenType::kUnused) {
        return DataLoss("model.vocab: {} and {} both have id {}", QuoteToken(data_.tokens[id]),
                        QuoteToken(vocab[i].first), id);
      }
      data_.tokens[id] = vocab[i].first;
      // A spelling of nothing cannot be made of text, nor gives any.
      if (!vocab[i].first.empty()) data_.types[id] = TokenType::kNormal;
    }
    return {};
  }

  /// Whether entry `i` of the vocabulary is the one that index_ holds for its spelling.
  bool IsFirst(size_t i) const {
    return index_.Find(file_->vocab[i].first) == static_cast<int32_t>(i);
  }

  std::optional<int32_t> ModelId(std::string_view spelling) const {
    if (spelling.empty()) return std::nullopt;
    const std::optional<int32_t> entry = index_.Find(spelling);
    if (!entry) return std::nullopt;
    return ids_[static_cast<size_t>(*entry)];
  }

  /// Of a pair that occurs twice, the last rank counts.
  Status ReadMerges() {
    std::vector<MergeRule>& rules = data_.merge_rules;
    rules.reserve(file_->merges.size());
    std::string joined;
    for (const auto& [left, right] : file_->merges) {
      joined.assign(left).append(right);
      MergeRule rule{.rank = static_cast<uint32_t>(rules.size())};
      for (const auto& [text, id] : {std::pair<const std::string&, int32_t&>{left, rule.left},
                                     {right, rule.right},
                                     {joined, rule.merged}}) {
        const std::optional<int32_t> found = ModelId(text);
        if (!found) {
          return DataLoss("model.merges[{}]: {} is not in the vocabulary", rule.rank,
                          QuoteToken(text));
        }
        id = *found;
      }
      rules.push_back(rule);
    }
    const auto pair = [](const MergeRule& rule) { return std::pair(rule.left, rule.right); };
    std::vector<uint32_t> order(rules.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::pair(pair(rules[a]), a) < std::pair(pair(rules[b]), b);
    });
    std::vector<bool> drop(rules.size());
    bool any = false;
    for (size_t i = 1; i < order.size(); ++i) {
      if (pair(rules[order[i - 1]]) != pair(rules[order[i]])) continue;
      drop[order[i - 1]] = true;
      any = true;
    }
    if (any) std::erase_if(rules, [&](const MergeRule& rule) { return drop[rule.rank]; });
    return {};
  }

  Status ReadModelRules(ModelRules& rules) {
    const JsonSection model = Section("model");
    DECANT_ASSIGN_OR_RETURN(rules.byte_fallback, model.Bool("byte_fallback", false));
    DECANT_ASSIGN_OR_RETURN(rules.ignore_merges, model.Bool("ignore_merges", false));
    DECANT_ASSIGN_OR_RETURN(rules.fuse_unknown, model.Bool("fuse_unk", false));
    const JsonSection unknown = model.Member("unk_token");
    if (!unknown.is_null()) {
      DECANT_ASSIGN_OR_RETURN(const std::string text, unknown.String());
      rules.unknown = ModelId(text);
      // The reference fails when it first meets unknown text, which a byte-level vocabulary may
      // never do.
      if (!rules.unknown && !rules.byte_level) {
        return DataLoss("model.unk_token, {}, is not in the vocabulary", QuoteToken(text));
      }
    }
    if (rules.byte_fallback) {
      for (size_t id = 0; id < data_.tokens.size(); ++id) {
        if (data_.types[id] == TokenType::kNormal && ByteOfFallback(data_.tokens[id])) {
          data_.types[id] = TokenType::kByte;
        }
      }
    }
    return {};
  }

  Status ReadAddedTokens(std::vector<AddedTokenRule>& added) {
    const JsonSection section = Section("added_tokens");
    if (section.is_null()) return {};
    DECANT_ASSIGN_OR_RETURN(const std::vector<JsonSection> elements, section.Elements());
    // A position in `added` by id, so that a token that is listed again changes its rules.
    std::vector<size_t> position(data_.tokens.size() + elements.size(), elements.size());
    std::vector<std::string> beyond;  // Tokens that the model does not have.
    StringIndex beyond_index(elements.size());
    beyond.reserve(elements.size());
    for (const JsonSection& element : elements) {
      DECANT_ASSIGN_OR_RETURN(const std::string content, element.String("content"));
      DECANT_RETURN_IF_ERROR(element.Number("id").status());
      AddedTokenRule rule;
      DECANT_ASSIGN_OR_RETURN(rule.single_word, element.Bool("single_word"));
      DECANT_ASSIGN_OR_RETURN(rule.left_strip, element.Bool("lstrip"));
      DECANT_ASSIGN_OR_RETURN(rule.right_strip, element.Bool("rstrip"));
      DECANT_ASSIGN_OR_RETURN(rule.normalized, element.Bool("normalized"));
      DECANT_ASSIGN_OR_RETURN(const bool special, element.Bool("special"));
      if (content.empty()) continue;
      const std::optional<int32_t> known = ModelId(content);
      rule.in_model = known.has_value();
      if (known) {
        rule.id = *known;
      } else {
        beyond.push_back(content);
        const auto number = static_cast<int32_t>(beyond.size() - 1);
        const int32_t first = beyond_index.Add(beyond.back(), number);
        if (first != number) beyond.pop_back();
        rule.id = static_cast<int32_t>(model_size_) + first;
      }
      const auto id = static_cast<size_t>(rule.id);
      if (id >= data_.tokens.size()) {
        data_.tokens.resize(id + 1);
        data_.types.resize(id + 1, TokenType::kUnused);
      }
      if (!known && data_.types[id] != TokenType::kUnused && data_.tokens[id] != content) {
        return DataLoss("{}: {} is not in the vocabulary and its id, {}, belongs to {}",
                        element.place(), QuoteToken(content), id, QuoteToken(data_.tokens[id]));
      }
      data_.tokens[id] = content;
      data_.types[id] = special ? TokenType::kControl : TokenType::kUserDefined;
      if (position[id] < added.size()) {
        added[position[id]] = rule;
      } else {
        position[id] = added.size();
        added.push_back(rule);
      }
    }
    return {};
  }

  TokenizerJsonFile* file_;
  JsonSection root_;
  TokenizerData data_;
  StringIndex index_;         ///< The first of file_->vocab with a spelling.
  std::vector<int32_t> ids_;  ///< [file_->vocab] Of the entries that index_ holds.
  size_t model_size_ = 0;     ///< Distinct spellings of the model.
};

}  // namespace

Expected<TokenizerData> ReadTokenizerJson(std::string_view json, std::string_view file_name) {
  Expected<TokenizerJsonFile> file = ReadTokenizerJsonFile(json);
  if (!file.ok()) return file.status().WithContext(file_name);
  Expected<TokenizerData> data = DataBuilder(*file).Build();
  if (!data.ok()) return data.status().WithContext(file_name);
  return data;
}

}  // namespace decant
