#include "text/gguf_pre_tokenizer.h"

#include <array>
#include <string>

#include "text/known_patterns.h"
#include "text/tokenizer_data.h"

namespace decant {
namespace {

struct Named {
  std::string_view name;
  PreTokenizer pre_tokenizer;
};

/// A name that is the first of its pre-tokenizer is the one that PreTokenizerName gives.
constexpr std::array kNames = {
    Named{"smollm", PreTokenizer::kSmolLm},
    Named{"starcoder", PreTokenizer::kSmolLm},
    Named{"refact", PreTokenizer::kSmolLm},
    Named{"command-r", PreTokenizer::kSmolLm},
    Named{"codeshell", PreTokenizer::kSmolLm},
    Named{"exaone", PreTokenizer::kSmolLm},
    Named{"minerva-7b", PreTokenizer::kSmolLm},
    Named{"qwen2", PreTokenizer::kQwen2},
    Named{"deepseek-r1-qwen", PreTokenizer::kQwen2},
    Named{"megrez", PreTokenizer::kQwen2},
    Named{"llama-bpe", PreTokenizer::kLlamaBpe},
    Named{"llama3", PreTokenizer::kLlamaBpe},
    Named{"llama-v3", PreTokenizer::kLlamaBpe},
    Named{"falcon3", PreTokenizer::kLlamaBpe},
    Named{"gpt-2", PreTokenizer::kGpt2},
    Named{"phi-2", PreTokenizer::kGpt2},
    Named{"deepseek-llm", PreTokenizer::kDeepSeekLlm},
    Named{"deepseek-coder", PreTokenizer::kDeepSeekCoder},
    Named{"default", PreTokenizer::kDefault},
};

/// The letters of deepseek-llm's tokenizer.json: Latin, Greek, Cyrillic, Armenian, Georgian,
/// Cherokee and others that have case.
constexpr std::string_view kCasedWords =
    R"(\s?[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293})"
    R"(\x{295}-\x{2af}\x{370}-\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a})"
    R"(\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556})"
    R"(\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf})"
    R"(\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d})"
    R"(\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d})"
    R"(\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4})"
    R"(\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4})"
    R"(\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124})"
    R"(\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f})"
    R"(\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4})"
    R"(\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f})"
    R"(\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17})"
    R"(\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3})"
    R"(\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943}]+)";
constexpr std::string_view kCjkRuns = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";

SplitStep Isolate(std::string_view regex) {
  return {.pattern = {TextPattern::Kind::kRegex, std::string(regex)}};
}

SplitStep Digits(SplitBehavior behavior) {
  return {.kind = SplitStep::Kind::kDigits, .behavior = behavior};
}

}  // namespace

Expected<PreTokenizer> PreTokenizerFromName(std::string_view name) {
  std::string names;
  for (const Named& known : kNames) {
    if (name == known.name) return known.pre_tokenizer;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", known.name);
  }
  return Error(StatusCode::kUnimplemented, "the pre-tokenizer '{}' is not supported; supported: {}",
               name, names);
}

std::string_view PreTokenizerName(PreTokenizer pre_tokenizer) {
  for (const Named& known : kNames) {
    if (known.pre_tokenizer == pre_tokenizer) return known.name;
  }
  return "unknown";
}

TokenizerPipeline ByteLevelPipeline(PreTokenizer pre_tokenizer) {
  TokenizerPipeline pipeline;
  pipeline.model.byte_level = true;
  pipeline.decoders = {{.kind = DecoderStep::Kind::kByteLevel}};
  bool gpt2 = false;
  switch (pre_tokenizer) {
    case PreTokenizer::kSmolLm:
      pipeline.splits = {Digits(SplitBehavior::kIsolated)};
      gpt2 = true;
      break;
    case PreTokenizer::kQwen2:
      pipeline.normalizers = {{.kind = NormalizerStep::Kind::kNfc}};
      pipeline.splits = {Isolate(kQwen2Pattern)};
      break;
    case PreTokenizer::kLlamaBpe:
      pipeline.splits = {Isolate(kLlama3Pattern)};
      pipeline.model.ignore_merges = true;
      break;
    case PreTokenizer::kGpt2:
      gpt2 = true;
      break;
    case PreTokenizer::kDeepSeekLlm:
      pipeline.splits = {
          Isolate("[\r\n]"),
          Isolate(kCasedWords),
          Isolate(
              R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)"),
          Isolate("\\s+$"),
          Isolate(kCjkRuns),
          Digits(SplitBehavior::kContiguous)};
      break;
    case PreTokenizer::kDeepSeekCoder:
      pipeline.splits = {Isolate("[\r\n]"), Isolate("\\s?\\p{L}+"), Isolate("\\s?\\p{P}+"),
                         Isolate(kCjkRuns), Digits(SplitBehavior::kIsolated)};
      break;
    case PreTokenizer::kDefault:
      pipeline.splits = {Isolate("[\\p{P}$+<=>\\^~|]+"), Isolate(kGpt2Pattern),
                         Digits(SplitBehavior::kContiguous), Isolate("[0-9][0-9][0-9]")};
      break;
  }
  pipeline.splits.push_back({.kind = SplitStep::Kind::kByteLevel, .use_regex = gpt2});
  return pipeline;
}

}  // namespace decant
