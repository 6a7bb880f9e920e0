#include "text/gguf_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "text/gguf_pre_tokenizer.h"
#include "text/string_index.h"
#include "text/vocabulary.h"

namespace decant {
namespace {

constexpr std::string_view kMark = "\u2581";

Status ReadTypes(const GgufVocabulary& vocabulary, std::vector<TokenType>& types) {
  if (vocabulary.types.empty()) {
    types.assign(vocabulary.tokens.size(), TokenType::kNormal);
    return {};
  }
  for (const int32_t number : vocabulary.types) {
    DECANT_ASSIGN_OR_RETURN(const TokenType type, TokenTypeFromGguf(number));
    types.push_back(type);
  }
  if (types.size() != vocabulary.tokens.size()) {
    return InvalidArgument("the vocabulary has {} tokens but {} token types",
                           vocabulary.tokens.size(), types.size());
  }
  return {};
}

bool IsText(TokenType type) {
  return type == TokenType::kNormal || type == TokenType::kUserDefined;
}

/// A rank for each token: equal scores share one, the highest has the lowest.
Expected<std::vector<uint32_t>> RankScores(const std::vector<float>& scores) {
  std::vector<float> sorted;
  for (const float score : scores) {
    if (std::isnan(score)) {
      return InvalidArgument("the score of token {} is not a number", sorted.size());
    }
    sorted.push_back(score);
  }
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  std::vector<uint32_t> ranks;
  ranks.reserve(scores.size());
  for (const float score : scores) {
    const auto it = std::lower_bound(sorted.begin(), sorted.end(), score, std::greater<>());
    ranks.push_back(static_cast<uint32_t>(it - sorted.begin()));
  }
  return ranks;
}

/// Every way to make a token of two others.
Expected<std::vector<MergeRule>> MergesOfScores(const TokenizerData& data,
                                                const std::vector<float>& scores) {
  if (scores.size() != data.tokens.size()) {
    return InvalidArgument("the vocabulary has {} tokens but {} scores", data.tokens.size(),
                           scores.size());
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<uint32_t> ranks, RankScores(scores));
  StringIndex ids(data.tokens.size());
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    if (IsText(data.types[id]) && !data.tokens[id].empty()) {
      ids.Add(data.tokens[id], static_cast<int32_t>(id));
    }
  }
  std::vector<MergeRule> merges;
  for (size_t id = 0; id < data.tokens.size(); ++id) {
    const std::string_view token = data.tokens[id];
    // Cuts of longer ones would take quadratic time; Tokenizer::Create refuses them by name.
    if (!IsText(data.types[id]) || token.size() > Vocabulary::kMaxTokenBytes) continue;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((static_cast<uint8_t>(token[cut]) & 0xC0U) == 0x80U) continue;
      const std::optional<int32_t> left = ids.Find(token.substr(0, cut));
      if (!left) continue;
      const std::optional<int32_t> right = ids.Find(token.substr(cut));
      if (!right) continue;
      merges.push_back(
          {.left = *left, .right = *right, .merged = static_cast<int32_t>(id), .rank = ranks[id]});
    }
  }
  return merges;
}

void AddSentencePieceSteps(bool space_prefix, TokenizerPipeline& pipeline) {
  const std::string mark(kMark);
  if (space_prefix) {
    NormalizerStep& prepend = pipeline.normalizers.emplace_back();
    prepend.kind = NormalizerStep::Kind::kPrepend;
    prepend.content = mark;
  }
  NormalizerStep& to_mark = pipeline.normalizers.emplace_back();
  to_mark.kind = NormalizerStep::Kind::kReplace;
  to_mark.pattern.text.assign(1, ' ');
  to_mark.content = mark;

  pipeline.decoders.resize(3);
  DecoderStep& to_space = pipeline.decoders[0];
  to_space.kind = DecoderStep::Kind::kReplace;
  to_space.pattern.text = mark;
  to_space.content.assign(1, ' ');
  pipeline.decoders[1].kind = DecoderStep::Kind::kByteFallbackEach;
  pipeline.decoders[2].kind = DecoderStep::Kind::kFuse;
  if (space_prefix) {
    DecoderStep& strip = pipeline.decoders.emplace_back();
    strip.kind = DecoderStep::Kind::kStrip;
    strip.content.assign(1, ' ');
    strip.start = 1;
  }
}

}  // namespace

Expected<TokenizerData> MakeGgufTokenizerData(GgufVocabulary vocabulary) {
  const bool by_score = vocabulary.model == "llama";
  if (!by_score && vocabulary.model != "gpt2") {
    return Error(StatusCode::kUnimplemented,
                 "the tokenizer model '{}' is not supported; supported: gpt2, llama",
                 vocabulary.model);
  }
  TokenizerData data;
  DECANT_RETURN_IF_ERROR(ReadTypes(vocabulary, data.types));
  data.tokens = std::move(vocabulary.tokens);
  data.bos = vocabulary.bos;
  if (vocabulary.eos) data.eos.push_back(*vocabulary.eos);
  data.add_bos = vocabulary.add_bos.value_or(by_score && vocabulary.bos.has_value());
  if (data.add_bos && data.bos) data.prefix.push_back(*data.bos);
  if (vocabulary.add_eos.value_or(false) && vocabulary.eos) data.suffix.push_back(*vocabulary.eos);

  TokenizerPipeline pipeline;
  if (by_score) {
    AddSentencePieceSteps(vocabulary.add_space_prefix.value_or(true), pipeline);
    pipeline.model.byte_fallback = true;
    pipeline.model.fuse_unknown = true;
    pipeline.model.unknown = vocabulary.unknown;
    DECANT_ASSIGN_OR_RETURN(data.merge_rules, MergesOfScores(data, vocabulary.scores));
  } else {
    DECANT_ASSIGN_OR_RETURN(data.pre_tokenizer,
                            PreTokenizerFromName(vocabulary.pre.value_or("default")));
    pipeline = ByteLevelPipeline(data.pre_tokenizer);
    data.merges = std::move(vocabulary.merges);
  }
  for (size_t id = 0; id < data.types.size(); ++id) {
    const TokenType type = data.types[id];
    if (type == TokenType::kControl || type == TokenType::kUnknown ||
        type == TokenType::kUserDefined) {
      pipeline.added.push_back({.id = static_cast<int32_t>(id)});
    }
  }
  data.pipeline = std::move(pipeline);
  return data;
}

}  // namespace decant
