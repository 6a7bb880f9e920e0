#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/regex.h"
#include "text/tokenizer_data.h"

namespace decant {

/// The steps from tokens' spellings to text. Thread-safe: const; what a text needs to remember is
/// in a DecodeStream.
class Decoder {
 public:
  static constexpr size_t kMaxSteps = 16;
  static constexpr uint32_t kMaxStrip = 1024;
  static constexpr size_t kMaxGrowth = 1024;  ///< Of a token, by all replacements together.

  /// kInvalidArgument for too many steps, too much growth, a bad pattern, content that is not one
  /// character where that is asked for; kUnimplemented for steps that need whole tokens after one
  /// that fuses them (ByteLevel, ByteFallback or a regular expression after Fuse or ByteLevel).
  static Expected<Decoder> Create(std::span<const DecoderStep> steps);

  /// The bytes that a token stands for inside a text, maybe a part of a code point: without what
  /// depends on its place (Strip) or its neighbours.
  std::string TokenBytes(std::string_view spelling) const;

 private:
  friend class DecodeStream;
  struct Step {
    DecoderStep rule;
    std::optional<Regex> regex;
  };

  std::vector<Step> steps_;
};

/// One text on its way through a Decoder. What Push and Finish append, joined, is the reference's
/// decode of all tokens together, and always whole code points.
class DecodeStream {
 public:
  /// `decoder` must outlive it.
  explicit DecodeStream(const Decoder& decoder);

  /// Appends to `out` what is certain now that the token has come. Bytes that may yet become a code
  /// point wait; with ByteFallback, a run of byte tokens waits for its end.
  void Push(std::string_view spelling, std::string& out);

  /// The end of the text: appends what waits. The next Push begins another text.
  void Finish(std::string& out);

 private:
  /// What one step remembers.
  struct State {
    bool begun = false;     ///< Whether any token, or any of the fused text, has come.
    std::string held;       ///< Bytes that wait.
    uint32_t stripped = 0;  ///< Of kStrip on fused text: off the front so far.
    bool front = true;      ///< Of kStrip on fused text: whether more may come off the front.
  };

  /// `text`, a whole token or (behind a step that fuses) some more of the one token that there is,
  /// through the steps from `step` on.
  void Feed(size_t step, std::string_view text, std::string& out);
  void End(size_t step, std::string& out);

  void FeedByteLevel(size_t step, std::string_view token, std::string& out);
  void FeedByteFallback(size_t step, std::string_view token, std::string& out);
  void EndByteRun(size_t step, std::string& out);
  void FeedEachByte(size_t step, bool at_end, std::string& out);
  void FeedReplace(size_t step, std::string_view text, std::string& out);
  void FeedStrip(size_t step, std::string_view text, std::string& out);
  void FeedMetaspace(size_t step, std::string_view text, std::string& out);

  const Decoder* decoder_;
  std::vector<State> states_;  ///< [steps]
  std::vector<bool> fused_;    ///< [steps] Whether a step sees one token in parts.
};

}  // namespace decant
