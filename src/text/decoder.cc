#include "text/decoder.h"

#include <algorithm>
#include <utility>

#include "text/byte_symbols.h"
#include "text/code_points.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace decant {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";

bool Fuses(DecoderStep::Kind kind) {
  return kind == DecoderStep::Kind::kFuse || kind == DecoderStep::Kind::kByteLevel ||
         kind == DecoderStep::Kind::kJoin;
}

bool IsOneCharacter(std::string_view text) {
  return !text.empty() && ReadUtf8(text).kind == Utf8Kind::kValid &&
         ReadUtf8(text).length == text.size();
}

Status CheckStep(const DecoderStep& rule, bool fused) {
  using enum DecoderStep::Kind;
  switch (rule.kind) {
    case kByteLevel:
    case kByteFallback:
    case kByteFallbackEach:
    case kJoin:
      if (!fused) return {};
      return Error(StatusCode::kUnimplemented,
                   "a step that needs tokens behind one that fuses them is not supported");
    case kFuse:
      return {};
    case kReplace:
      if (rule.pattern.text.empty()) return InvalidArgument("its pattern is empty");
      if (rule.content.size() > 256 || !IsUtf8(rule.content)) {
        return InvalidArgument("its content is not UTF-8 of at most 256 bytes");
      }
      if (fused && rule.pattern.kind == TextPattern::Kind::kRegex) {
        return Error(StatusCode::kUnimplemented,
                     "a regular expression behind a step that fuses tokens is not supported");
      }
      return {};
    case kStrip:
      if (rule.start > Decoder::kMaxStrip || rule.stop > Decoder::kMaxStrip) {
        return InvalidArgument("start and stop are {} and {}; at most {} are allowed", rule.start,
                               rule.stop, Decoder::kMaxStrip);
      }
      [[fallthrough]];
    case kMetaspace:
      if (!IsOneCharacter(rule.content)) return InvalidArgument("its content is not one character");
      return {};
  }
  return {};
}

std::string ReplaceIn(std::string_view text, const DecoderStep& rule,
                      const std::optional<Regex>& regex) {
  std::string out;
  size_t from = 0;
  const auto put = [&](size_t begin, size_t end) {
    out.append(text.substr(from, begin - from)).append(rule.content);
    from = end;
  };
  if (regex) {
    Regex::Finder finder(*regex, text);
    while (const std::optional<Regex::Match> match = finder.Next()) put(match->begin, match->end);
  } else {
    const std::string& pattern = rule.pattern.text;
    for (size_t at = text.find(pattern); at != std::string_view::npos;
         at = text.find(pattern, from)) {
      put(at, at + pattern.size());
    }
  }
  out.append(text.substr(from));
  return out;
}

/// The longest end of `text` that `pattern` goes on from.
size_t PartialMatch(std::string_view text, std::string_view pattern) {
  size_t length = std::min(text.size(), pattern.size() - 1);
  while (length > 0 && text.substr(text.size() - length) != pattern.substr(0, length)) --length;
  return length;
}

/// `token` without up to `start` and `stop` of `content` at its ends.
std::string_view StripToken(std::string_view token, const DecoderStep& rule) {
  const std::string_view whole = token;
  size_t begin = 0;
  for (uint32_t i = 0; i < rule.start && token.substr(begin).starts_with(rule.content); ++i) {
    begin += rule.content.size();
  }
  size_t end = whole.size();
  for (uint32_t i = 0; i < rule.stop && whole.substr(0, end).ends_with(rule.content); ++i) {
    end -= rule.content.size();
  }
  return begin < end ? whole.substr(begin, end - begin) : std::string_view();
}

std::string SpacesFor(std::string_view text, std::string_view mark, std::string_view with) {
  std::string out;
  size_t from = 0;
  for (size_t at = text.find(mark); at != std::string_view::npos; at = text.find(mark, from)) {
    out.append(text.substr(from, at - from)).append(with);
    from = at + mark.size();
  }
  return out.append(text.substr(from));
}

}  // namespace

Expected<Decoder> Decoder::Create(std::span<const DecoderStep> steps) {
  if (steps.size() > kMaxSteps) {
    return InvalidArgument("the decoder has {} steps; at most {} are allowed", steps.size(),
                           kMaxSteps);
  }
  Decoder decoder;
  bool fused = false;
  size_t growth = 1;
  for (const DecoderStep& rule : steps) {
    const std::string where = fmt::format("decoder step {}", decoder.steps_.size());
    if (const Status status = CheckStep(rule, fused); !status.ok()) {
      return status.WithContext(where);
    }
    fused = fused || Fuses(rule.kind);
    if (rule.kind == DecoderStep::Kind::kReplace) growth *= GrowthOf(rule.pattern, rule.content);
    if (growth > kMaxGrowth) {
      return InvalidArgument("{}: a token may grow {} times; at most {} are allowed", where, growth,
                             kMaxGrowth);
    }
    Step step{.rule = rule, .regex = std::nullopt};
    if (rule.kind == DecoderStep::Kind::kReplace &&
        rule.pattern.kind == TextPattern::Kind::kRegex) {
      Expected<Regex> regex = Regex::Compile(rule.pattern);
      if (!regex.ok()) return regex.status().WithContext(where);
      step.regex = std::move(regex).value();
    }
    decoder.steps_.push_back(std::move(step));
  }
  return decoder;
}

std::string Decoder::TokenBytes(std::string_view spelling) const {
  std::string text(spelling);
  for (const Step& step : steps_) {
    switch (step.rule.kind) {
      case DecoderStep::Kind::kByteLevel:
        return BytesOfSpelling(text);
      case DecoderStep::Kind::kByteFallback:
      case DecoderStep::Kind::kByteFallbackEach:
        if (const auto byte = ByteOfFallback(text)) return {static_cast<char>(*byte)};
        break;
      case DecoderStep::Kind::kReplace:
        text = ReplaceIn(text, step.rule, step.regex);
        break;
      case DecoderStep::Kind::kMetaspace:
        text = SpacesFor(text, step.rule.content, " ");
        break;
      case DecoderStep::Kind::kFuse:
      case DecoderStep::Kind::kStrip:
      case DecoderStep::Kind::kJoin:
        break;
    }
  }
  return text;
}

DecodeStream::DecodeStream(const Decoder& decoder)
    : decoder_(&decoder), states_(decoder.steps_.size()) {
  bool fused = false;
  for (const Decoder::Step& step : decoder.steps_) {
    fused_.push_back(fused);
    fused = fused || Fuses(step.rule.kind);
  }
}

void DecodeStream::Push(std::string_view spelling, std::string& out) { Feed(0, spelling, out); }

void DecodeStream::Finish(std::string& out) {
  End(0, out);
  std::fill(states_.begin(), states_.end(), State());
}

void DecodeStream::Feed(size_t step, std::string_view text, std::string& out) {
  if (step == states_.size()) {
    out.append(text);
    return;
  }
  switch (decoder_->steps_[step].rule.kind) {
    case DecoderStep::Kind::kByteLevel:
      return FeedByteLevel(step, text, out);
    case DecoderStep::Kind::kByteFallback:
    case DecoderStep::Kind::kByteFallbackEach:
      return FeedByteFallback(step, text, out);
    case DecoderStep::Kind::kFuse:
      return Feed(step + 1, text, out);
    case DecoderStep::Kind::kReplace:
      return FeedReplace(step, text, out);
    case DecoderStep::Kind::kStrip:
      return FeedStrip(step, text, out);
    case DecoderStep::Kind::kMetaspace:
      return FeedMetaspace(step, text, out);
    case DecoderStep::Kind::kJoin:
      if (std::exchange(states_[step].begun, true)) Feed(step + 1, " ", out);
      return Feed(step + 1, text, out);
  }
}

void DecodeStream::End(size_t step, std::string& out) {
  if (step == states_.size()) return;
  const DecoderStep& rule = decoder_->steps_[step].rule;
  State& state = states_[step];
  switch (rule.kind) {
    case DecoderStep::Kind::kByteLevel:
      if (!state.held.empty()) Feed(step + 1, kReplacement, out);
      break;
    case DecoderStep::Kind::kByteFallback:
      EndByteRun(step, out);
      break;
    case DecoderStep::Kind::kByteFallbackEach:
      FeedEachByte(step, /*at_end=*/true, out);
      break;
    case DecoderStep::Kind::kReplace:
      if (!state.held.empty()) Feed(step + 1, state.held, out);
      break;
    case DecoderStep::Kind::kStrip:
      if (!state.held.empty()) {
        DecoderStep at_end = rule;
        at_end.start = 0;
        Feed(step + 1, StripToken(state.held, at_end), out);
      }
      break;
    case DecoderStep::Kind::kFuse:
    case DecoderStep::Kind::kMetaspace:
    case DecoderStep::Kind::kJoin:
      break;
  }
  End(step + 1, out);
}

void DecodeStream::FeedByteLevel(size_t step, std::string_view token, std::string& out) {
  std::string& held = states_[step].held;
  held += BytesOfSpelling(token);
  std::string text;
  const size_t left = AppendCompleteUtf8(held, text);
  held.erase(0, held.size() - left);
  if (!text.empty()) Feed(step + 1, text, out);
}

void DecodeStream::FeedByteFallback(size_t step, std::string_view token, std::string& out) {
  const bool each = decoder_->steps_[step].rule.kind == DecoderStep::Kind::kByteFallbackEach;
  if (const std::optional<uint8_t> byte = ByteOfFallback(token)) {
    states_[step].held.push_back(static_cast<char>(*byte));
    if (each) FeedEachByte(step, /*at_end=*/false, out);
    return;
  }
  if (each) {
    FeedEachByte(step, /*at_end=*/true, out);
  } else {
    EndByteRun(step, out);
  }
  Feed(step + 1, token, out);
}

void DecodeStream::EndByteRun(size_t step, std::string& out) {
  const std::string run = std::exchange(states_[step].held, {});
  if (run.empty()) return;
  if (IsUtf8(run)) return Feed(step + 1, run, out);
  for (size_t i = 0; i < run.size(); ++i) Feed(step + 1, kReplacement, out);
}

void DecodeStream::FeedEachByte(size_t step, bool at_end, std::string& out) {
  std::string& held = states_[step].held;
  size_t done = 0;
  while (done < held.size()) {
    const std::string_view rest = std::string_view(held).substr(done);
    const Utf8Unit unit = ReadUtf8(rest);
    if (unit.kind == Utf8Kind::kIncomplete && !at_end) break;
    const bool valid = unit.kind == Utf8Kind::kValid;
    Feed(step + 1, valid ? rest.substr(0, unit.length) : kReplacement, out);
    done += valid ? unit.length : 1;
  }
  held.erase(0, done);
}

void DecodeStream::FeedReplace(size_t step, std::string_view text, std::string& out) {
  const Decoder::Step& rule = decoder_->steps_[step];
  if (!fused_[step]) return Feed(step + 1, ReplaceIn(text, rule.rule, rule.regex), out);
  // What may be the front of a match that the next part completes waits. A match never begins
  // before the last one's end, so that what is left of the pattern's finds is all there is.
  std::string all = std::exchange(states_[step].held, {});
  all += text;
  const std::string& pattern = rule.rule.pattern.text;
  size_t last_end = 0;
  for (size_t at = all.find(pattern); at != std::string::npos; at = all.find(pattern, last_end)) {
    last_end = at + pattern.size();
  }
  const size_t waits = PartialMatch(std::string_view(all).substr(last_end), pattern);
  states_[step].held = all.substr(all.size() - waits);
  all.resize(all.size() - waits);
  if (!all.empty()) Feed(step + 1, ReplaceIn(all, rule.rule, rule.regex), out);
}

void DecodeStream::FeedStrip(size_t step, std::string_view text, std::string& out) {
  const DecoderStep& rule = decoder_->steps_[step].rule;
  if (!fused_[step]) return Feed(step + 1, StripToken(text, rule), out);
  State& state = states_[step];
  while (state.front && state.stripped < rule.start && text.starts_with(rule.content)) {
    text.remove_prefix(rule.content.size());
    ++state.stripped;
  }
  if (!text.empty()) state.front = false;
  // What may turn out to be the end of the text waits: as many characters as may come off there.
  state.held += text;
  size_t ready = state.held.size();
  for (uint32_t i = 0;
       i < rule.stop && std::string_view(state.held).substr(0, ready).ends_with(rule.content);
       ++i) {
    ready -= rule.content.size();
  }
  if (ready == 0) return;
  const std::string certain = state.held.substr(0, ready);
  state.held.erase(0, ready);
  Feed(step + 1, certain, out);
}

void DecodeStream::FeedMetaspace(size_t step, std::string_view text, std::string& out) {
  const DecoderStep& rule = decoder_->steps_[step].rule;
  const bool first = fused_[step] || !std::exchange(states_[step].begun, true);
  Feed(step + 1, SpacesFor(text, rule.content, first && rule.drop ? "" : " "), out);
}

}  // namespace decant
