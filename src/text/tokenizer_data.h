#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "text/gguf_pre_tokenizer.h"

namespace decant {

/// What a token is, as in GGUF's tokenizer.ggml.token_type.
enum class TokenType {
  kNormal = 1,       ///< Text that merges make.
  kUnknown = 2,      ///< What unknown text becomes; treated as kControl.
  kControl = 3,      ///< Never text: ends, turns, roles.
  kUserDefined = 4,  ///< Text that is cut out before any merge, such as "<tool_call>".
  kUnused = 5,       ///< A gap in the vocabulary.
  kByte = 6,         ///< One byte, spelled "<0x0A>".
};

/// The type with a GGUF number; kInvalidArgument for others.
Expected<TokenType> TokenTypeFromGguf(int64_t number);

/// What a normalizer or a splitter looks for.
struct TextPattern {
  enum class Kind {
    kLiteral,
    kRegex,  ///< In Oniguruma's syntax (regex_syntax.h).
  };
  Kind kind = Kind::kLiteral;
  std::string text{};
};

/// One change to text before it is split. Names and meanings are those of tokenizer.json.
struct NormalizerStep {
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kPrepend,  ///< `content` before text that is not empty.
    kReplace,  ///< `content` for each match of `pattern`.
    kStrip,    ///< White space off the `left` and the `right`.
  };
  Kind kind = Kind::kNfc;
  TextPattern pattern{};
  std::string content{};
  bool left = false;
  bool right = false;
};

/// What becomes of the delimiters that a splitter finds.
enum class SplitBehavior {
  kRemoved,
  kIsolated,
  kMergedWithPrevious,
  kMergedWithNext,
  kContiguous,  ///< Neighbouring delimiters are one piece.
};

/// When Metaspace puts its character before a piece that does not begin with it.
enum class PrependScheme { kAlways, kFirst, kNever };

/// One cut of text into pieces. Names and meanings are those of tokenizer.json.
struct SplitStep {
  enum class Kind {
    kPattern,          ///< "Split": `pattern`, `behavior`, `invert`.
    kDigits,           ///< Numeric characters: kIsolated or kContiguous.
    kByteLevel,        ///< `prefix_space`; GPT-2's pattern if `use_regex`. Must be the last step.
    kMetaspace,        ///< Spaces become `replacement`; `prepend`; cut before it if `cut`.
    kWhitespace,       ///< Runs of word characters, and of others but white space.
    kWhitespaceSplit,  ///< Runs of others than white space.
    kPunctuation,      ///< `behavior`.
  };
  Kind kind = Kind::kPattern;
  TextPattern pattern{};
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  bool prefix_space = false;
  bool use_regex = true;
  std::string replacement{};
  PrependScheme prepend = PrependScheme::kAlways;
  bool cut = true;
};

/// Two tokens that may merge. Of all pairs that may, the lowest rank does first, then the leftmost.
struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
  uint32_t rank = 0;
};

/// How a piece becomes tokens.
struct ModelRules {
  bool byte_level = false;         ///< Tokens are spelled in byte symbols (byte_symbols.h).
  bool byte_fallback = false;      ///< A character without a token becomes the tokens of its bytes.
  bool ignore_merges = false;      ///< A piece that is a token is that token, whatever merges say.
  std::optional<int32_t> unknown;  ///< For what nothing else holds; without it, that is left out.
  bool fuse_unknown = false;       ///< Unknown neighbours are one unknown token.
};

/// One step from tokens to text. Names and meanings are those of tokenizer.json.
struct DecoderStep {
  enum class Kind {
    kByteLevel,
    kByteFallback,      ///< A run of byte tokens is its text, or U+FFFD for each byte.
    kByteFallbackEach,  ///< The same, but U+FFFD only for the bytes that are no text
                        ///< (SentencePiece).
    kFuse,              ///< All tokens become one.
    kReplace,           ///< `content` for `pattern` in each token.
    kStrip,             ///< `content`, one character, off each token, `start` and `stop` times.
    kMetaspace,  ///< Spaces for `content`, one character; nothing in the first token if `drop`.
    kJoin,       ///< A space between tokens: what a file without a decoder gets.
  };
  Kind kind = Kind::kFuse;
  TextPattern pattern{};
  std::string content{};
  uint32_t start = 0;
  uint32_t stop = 0;
  bool drop = false;
};

/// A token that is found in text before anything else.
struct AddedTokenRule {
  int32_t id = 0;
  bool single_word = false;  ///< Not beside a word character.
  bool left_strip = false;   ///< Takes the white space on its left with it.
  bool right_strip = false;  ///< Takes the white space on its right with it.
  bool normalized = false;   ///< Found in normalised text, by its normalised spelling.
  bool in_model = true;      ///< Whether merges may make it, too.
};

/// The way from text to tokens and back.
struct TokenizerPipeline {
  std::vector<NormalizerStep> normalizers;
  std::vector<SplitStep> splits;
  ModelRules model;
  std::vector<DecoderStep> decoders;
  std::vector<AddedTokenRule> added;  ///< Any order; ids distinct.
};

/// A vocabulary as a file holds it; hostile until Tokenizer::Create has looked at it.
struct TokenizerData {
  /// Stands for a byte-level pipeline by its GGUF name where `pipeline` is absent.
  PreTokenizer pre_tokenizer = PreTokenizer::kSmolLm;
  std::optional<TokenizerPipeline> pipeline;

  std::vector<std::string> tokens;  ///< By id, as the file spells them; kUnused ones may be empty.
  std::vector<TokenType> types;     ///< [tokens.size()]
  std::vector<std::string> merges;  ///< "left right", in order of rank; or none, and:
  std::vector<MergeRule> merge_rules;
  std::vector<int32_t> prefix;  ///< Before a text, for callers that ask (AddedAround).
  std::vector<int32_t> suffix;  ///< After it.
  std::optional<int32_t> bos;   ///< The token that begins a text, if the model has one.
  std::vector<int32_t> eos;     ///< Tokens that end a text.
  bool add_bos = false;         ///< Whether prompts begin with `bos`.
};

}  // namespace decant
