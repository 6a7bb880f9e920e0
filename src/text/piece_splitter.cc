#include "text/piece_splitter.h"

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"

namespace decant {
namespace {

/// Unicode's White_Space (PropList.txt; unchanged since Unicode 6.3) for the inside of a character
/// class. It takes the place of `\s`, which the patterns below therefore use in brackets only.
constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

/// Hugging Face spells this as two steps, Digits(individual_digits) and then ByteLevel(use_regex),
/// whose pattern is GPT-2's:
/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
/// In one pattern: a number is a piece of its own and takes no space with it, and the look-ahead
/// sees a number as it sees the end of the text.
constexpr std::string_view kSmolLmPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|[\s]+(?![^\s\p{N}])|[\s]+)";

/// Qwen2.5's tokenizer.json.
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"([\s]*[\r\n]+|[\s]+(?![^\s])|[\s]+)";

std::string PatternOf(PreTokenizer pre_tokenizer) {
  constexpr std::string_view kClass = R"(\s)";
  std::string pattern(pre_tokenizer == PreTokenizer::kSmolLm ? kSmolLmPattern : kQwen2Pattern);
  for (size_t at = 0; (at = pattern.find(kClass, at)) != std::string::npos;
       at += kWhiteSpace.size()) {
    pattern.replace(at, kClass.size(), kWhiteSpace);
  }
  return pattern;
}

std::string MessageOf(int error) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(error, buffer, sizeof(buffer));
  if (length < 0) return fmt::format("PCRE2 error {}", error);
  return {reinterpret_cast<const char*>(buffer), static_cast<size_t>(length)};
}

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;

}  // namespace

struct PieceSplitter::Pattern {
  Code code;
  MatchContext context;
};

PieceSplitter::PieceSplitter(std::unique_ptr<Pattern> pattern) : pattern_(std::move(pattern)) {}
PieceSplitter::PieceSplitter(PieceSplitter&&) noexcept = default;
PieceSplitter& PieceSplitter::operator=(PieceSplitter&&) noexcept = default;
PieceSplitter::~PieceSplitter() = default;

Expected<PreTokenizer> PreTokenizerFromName(std::string_view name) {
  for (const PreTokenizer known : {PreTokenizer::kSmolLm, PreTokenizer::kQwen2}) {
    if (name == PreTokenizerName(known)) return known;
  }
  return Error(StatusCode::kUnimplemented,
               "the pre-tokenizer '{}' is not supported; supported: smollm, qwen2", name);
}

std::string_view PreTokenizerName(PreTokenizer pre_tokenizer) {
  return pre_tokenizer == PreTokenizer::kSmolLm ? "smollm" : "qwen2";
}

Expected<PieceSplitter> PieceSplitter::Create(PreTokenizer pre_tokenizer) {
  const std::string text = PatternOf(pre_tokenizer);
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  // Every code point begins some alternative, so that each match starts where the last one ended.
  Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_ANCHORED, &error, &error_offset, nullptr));
  if (code == nullptr) {
    return Error(StatusCode::kInternal, "the pattern of pre-tokenizer {}, offset {}: {}",
                 PreTokenizerName(pre_tokenizer), error_offset, MessageOf(error));
  }
  // A kernel that forbids writable code pages leaves the interpreter, which splits the same.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  MatchContext context(pcre2_match_context_create(nullptr));
  if (context == nullptr) return Error(StatusCode::kInternal, "PCRE2 is out of memory");
  // The patterns backtrack once over a run of white space and never nest, so that work is linear in
  // the text; the limits would only turn long runs into errors.
  pcre2_set_match_limit(context.get(), std::numeric_limits<uint32_t>::max());
  return PieceSplitter(std::make_unique<Pattern>(Pattern{std::move(code), std::move(context)}));
}

void PieceSplitter::Split(std::string_view utf8,
                          const std::function<void(std::string_view)>& visit) const {
  const MatchData match(pcre2_match_data_create(1, nullptr));
  DECANT_CHECK(match != nullptr, "PCRE2 is out of memory");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(utf8.data());
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match.get());
  for (size_t begin = 0; begin < utf8.size();) {
    const int count = pcre2_match(pattern_->code.get(), subject, utf8.size(), begin,
                                  PCRE2_NO_UTF_CHECK, match.get(), pattern_->context.get());
    DECANT_CHECK(count > 0 && bounds[1] > begin, "at byte {} of {}: {}", begin, utf8.size(),
                 MessageOf(count));
    visit(utf8.substr(begin, bounds[1] - begin));
    begin = bounds[1];
  }
}

}  // namespace decant
