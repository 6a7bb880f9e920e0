#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/status.h"

namespace decant {

/// How text is cut into pieces before any merge. Named as in GGUF's tokenizer.ggml.pre.
enum class PreTokenizer {
  kSmolLm,  ///< "smollm": single digits first, then GPT-2's pattern.
  kQwen2,   ///< "qwen2": NFC, then Qwen2's pattern.
};

/// The pre-tokenizer with a GGUF name, or kUnimplemented with the names that exist.
Expected<PreTokenizer> PreTokenizerFromName(std::string_view name);

/// "smollm" or "qwen2".
std::string_view PreTokenizerName(PreTokenizer pre_tokenizer);

/// Cuts text into the pieces within which byte pairs merge. Letters (\p{L}) and numbers (\p{N}) are
/// those of the PCRE2 library's Unicode version (14.0 in PCRE2 10.42); white space is the property
/// White_Space, spelled out because PCRE2's \s has U+180E besides.
/// Thread-safe: Split is const and keeps no state.
class PieceSplitter {
 public:
  /// Compiles the pattern; by just-in-time compilation where the machine allows it.
  static Expected<PieceSplitter> Create(PreTokenizer pre_tokenizer);

  PieceSplitter(PieceSplitter&&) noexcept;
  PieceSplitter& operator=(PieceSplitter&&) noexcept;
  ~PieceSplitter();

  /// Calls `visit` with each piece in order; together they are all of `utf8`, which must be
  /// well-formed and, for a pre-tokenizer that normalises, normalised. Takes linear time.
  void Split(std::string_view utf8, const std::function<void(std::string_view)>& visit) const;

 private:
  struct Pattern;
  explicit PieceSplitter(std::unique_ptr<Pattern> pattern);

  std::unique_ptr<Pattern> pattern_;
};

}  // namespace decant
