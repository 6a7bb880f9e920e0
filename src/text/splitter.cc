#include "text/splitter.h"

#include <algorithm>
#include <utility>

#include "text/code_points.h"
#include "text/known_patterns.h"
#include "text/utf8.h"

namespace decant {

/// Takes the segments of a piece in order, delimiters and what lies between, joins them as a
/// SplitBehavior says, and gives the result to the next step.
class Splitter::Segments {
 public:
  Segments(const Splitter& splitter, size_t step, std::string_view piece, bool at_start,
           PieceSink& sink)
      : splitter_(&splitter),
        next_(step + 1),
        behavior_(splitter.steps_[step].rule.behavior),
        invert_(splitter.steps_[step].rule.invert),
        piece_(piece),
        at_start_(at_start),
        sink_(&sink) {}

  /// The segment from where the last one ended to `end`; it may be empty.
  void Add(size_t end, bool is_match) {
    const bool delimiter = is_match != invert_;
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (!delimiter) Emit(end);
        begin_ = end;
        break;
      case SplitBehavior::kIsolated:
        Emit(end);
        break;
      case SplitBehavior::kContiguous:
        if (delimiter != last_) Emit(held_);
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (!(delimiter && !last_)) Emit(held_);
        break;
      case SplitBehavior::kMergedWithNext:
        if (delimiter || !last_) Emit(held_);
        break;
    }
    held_ = end;
    last_ = delimiter;
  }

  /// After the last segment.
  void Finish() {
    if (behavior_ != SplitBehavior::kRemoved) Emit(held_);
  }

 private:
  void Emit(size_t end) {
    if (end > begin_) {
      splitter_->Run(next_, piece_.substr(begin_, end - begin_), at_start_ && begin_ == 0, *sink_);
    }
    begin_ = end;
  }

  const Splitter* splitter_;
  size_t next_;
  SplitBehavior behavior_;
  bool invert_;
  std::string_view piece_;
  bool at_start_;
  PieceSink* sink_;
  size_t begin_ = 0;   ///< Where the piece that is being joined begins.
  size_t held_ = 0;    ///< Where it ends so far.
  bool last_ = false;  ///< Whether the last segment was a delimiter.
};

Expected<Splitter::Step> Splitter::MakeStep(const SplitStep& rule, bool is_last) {
  Step step{.rule = rule, .scanner = std::nullopt, .regex = std::nullopt};
  switch (rule.kind) {
    case SplitStep::Kind::kPattern: {
      const bool cuts_only = (rule.behavior == SplitBehavior::kIsolated) ||
                             (rule.behavior == SplitBehavior::kRemoved && rule.invert);
      if (cuts_only) step.scanner = PieceScanner::Of(rule.pattern);
      if (!step.scanner) {
        DECANT_ASSIGN_OR_RETURN(step.regex, Regex::Compile(rule.pattern));
      }
      break;
    }
    case SplitStep::Kind::kByteLevel:
      if (!is_last) {
        return Error(StatusCode::kUnimplemented, "ByteLevel before another step is not supported");
      }
      if (rule.use_regex) {
        step.scanner = PieceScanner::Of({TextPattern::Kind::kRegex, std::string(kGpt2Pattern)});
      }
      break;
    case SplitStep::Kind::kMetaspace:
      if (rule.replacement.empty() ||
          ReadUtf8(rule.replacement).length != rule.replacement.size() ||
          ReadUtf8(rule.replacement).kind != Utf8Kind::kValid) {
        return InvalidArgument("Metaspace's replacement is not one character");
      }
      break;
    default:
      break;
  }
  return step;
}

Expected<Splitter> Splitter::Create(std::span<const SplitStep> steps) {
  if (steps.size() > kMaxSteps) {
    return InvalidArgument("the pre-tokenizer has {} steps; at most {} are allowed", steps.size(),
                           kMaxSteps);
  }
  Splitter splitter;
  for (size_t i = 0; i < steps.size(); ++i) {
    Expected<Step> step = MakeStep(steps[i], i + 1 == steps.size());
    if (!step.ok()) return step.status().WithContext(fmt::format("pre-tokenizer step {}", i));
    splitter.steps_.push_back(std::move(step).value());
  }
  return splitter;
}

void Splitter::Split(std::string_view text, bool at_start, PieceSink& sink) const {
  if (!text.empty()) Run(0, text, at_start, sink);
}

void Splitter::Run(size_t step, std::string_view piece, bool at_start, PieceSink& sink) const {
  if (step == steps_.size()) {
    sink.Add(piece);
    return;
  }
  switch (steps_[step].rule.kind) {
    case SplitStep::Kind::kPattern:
      return RunPattern(step, piece, at_start, sink);
    case SplitStep::Kind::kByteLevel:
      return RunByteLevel(step, piece, at_start, sink);
    case SplitStep::Kind::kMetaspace:
      return RunMetaspace(step, piece, at_start, sink);
    case SplitStep::Kind::kDigits:
    case SplitStep::Kind::kPunctuation:
    case SplitStep::Kind::kWhitespace:
    case SplitStep::Kind::kWhitespaceSplit:
      return RunClasses(step, piece, at_start, sink);
  }
}

void Splitter::RunPattern(size_t step, std::string_view piece, bool at_start,
                          PieceSink& sink) const {
  if (const auto& scanner = steps_[step].scanner) {
    for (size_t begin = 0; begin < piece.size();) {
      const size_t length = scanner->PieceLength(piece.substr(begin));
      Run(step + 1, piece.substr(begin, length), at_start && begin == 0, sink);
      begin += length;
    }
    return;
  }
  Segments segments(*this, step, piece, at_start, sink);
  size_t end = 0;
  Regex::Finder finder(*steps_[step].regex, piece);
  while (const std::optional<Regex::Match> match = finder.Next()) {
    if (match->begin > end) segments.Add(match->begin, false);
    segments.Add(match->end, true);
    end = match->end;
  }
  if (end < piece.size()) segments.Add(piece.size(), false);
  segments.Finish();
}

void Splitter::RunClasses(size_t step, std::string_view piece, bool at_start,
                          PieceSink& sink) const {
  const SplitStep::Kind kind = steps_[step].rule.kind;
  // White space is what lies between pieces; word characters part from others.
  if (kind == SplitStep::Kind::kWhitespace || kind == SplitStep::Kind::kWhitespaceSplit) {
    const uint8_t mask =
        kind == SplitStep::Kind::kWhitespace ? kSpaceClass | kWordClass : kSpaceClass;
    size_t begin = 0;
    uint8_t classes = kSpaceClass;
    for (size_t at = 0; at <= piece.size();) {
      const uint8_t here =
          at < piece.size() ? ClassesOfFirst(piece.substr(at)) & mask : uint8_t{0xFF};
      if (here != classes) {
        if (classes != kSpaceClass && at > begin) {
          Run(step + 1, piece.substr(begin, at - begin), at_start && begin == 0, sink);
        }
        begin = at;
        classes = here;
      }
      at += at < piece.size() ? LengthOfLead(piece[at]) : 1;
    }
    return;
  }
  const uint8_t mask = kind == SplitStep::Kind::kDigits ? kNumberClass : kPunctuationClass;
  Segments segments(*this, step, piece, at_start, sink);
  size_t end = 0;
  for (size_t at = 0; at < piece.size();) {
    const size_t next = at + LengthOfLead(piece[at]);
    if ((ClassesOfFirst(piece.substr(at)) & mask) != 0) {
      if (at > end) segments.Add(at, false);
      segments.Add(next, true);
      end = next;
    }
    at = next;
  }
  if (end < piece.size()) segments.Add(piece.size(), false);
  segments.Finish();
}

void Splitter::RunByteLevel(size_t step, std::string_view piece, bool at_start,
                            PieceSink& sink) const {
  std::string spaced;
  if (steps_[step].rule.prefix_space && piece[0] != ' ') {
    spaced.assign(" ").append(piece);
    piece = spaced;
  }
  if (steps_[step].scanner) {
    RunPattern(step, piece, at_start, sink);
  } else {
    Run(step + 1, piece, at_start, sink);
  }
}

void Splitter::RunMetaspace(size_t step, std::string_view piece, bool at_start,
                            PieceSink& sink) const {
  const SplitStep& rule = steps_[step].rule;
  const std::string_view mark = rule.replacement;
  std::string text;
  const bool marked = piece.starts_with(mark) || piece.starts_with(' ');
  const bool wanted =
      rule.prepend == PrependScheme::kAlways || (rule.prepend == PrependScheme::kFirst && at_start);
  if (wanted && !marked) text = mark;
  for (const char c : piece) {
    if (c == ' ') {
      text += mark;
    } else {
      text += c;
    }
  }
  if (!rule.cut) return Run(step + 1, text, at_start, sink);
  const std::string_view all = text;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(mark, begin + 1), all.size());
    Run(step + 1, all.substr(begin, end - begin), at_start && begin == 0, sink);
    begin = end;
  }
}

}  // namespace decant
