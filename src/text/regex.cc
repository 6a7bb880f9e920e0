#include "text/regex.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/narrow.h"
#include "text/code_points.h"
#include "text/regex_syntax.h"
#include "text/utf8.h"

namespace decant {
namespace {

/// Above what one match over megabytes of white space needs; a second's work at most.
constexpr uint32_t kMatchLimit = 100'000'000;
constexpr uint32_t kHeapLimitKib = 262'144;

template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* pointer) const {
    kFree(pointer);
  }
};
using Code = std::unique_ptr<pcre2_code, FreeWith<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, FreeWith<pcre2_compile_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, FreeWith<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, FreeWith<pcre2_match_context_free>>;

std::string MessageOf(int error) {
  PCRE2_UCHAR buffer[256];
  const int length = pcre2_get_error_message(error, buffer, sizeof(buffer));
  if (length < 0) return fmt::format("PCRE2 error {}", error);
  return {reinterpret_cast<const char*>(buffer), static_cast<size_t>(length)};
}

PCRE2_SPTR Units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

Expected<Code> CompilePcre(std::string_view pattern, uint32_t options) {
  const CompileContext context(pcre2_compile_context_create(nullptr));
  DECANT_CHECK(context != nullptr, "PCRE2 is out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  Code code(pcre2_compile(Units(pattern), pattern.size(),
                          PCRE2_UTF | PCRE2_MULTILINE | PCRE2_NO_AUTO_CAPTURE | options, &error,
                          &offset, context.get()));
  if (code == nullptr) return InvalidArgument("{}", MessageOf(error));
  return code;
}

pcre2_match_data* MatchDataOfThread() {
  thread_local const MatchData data(pcre2_match_data_create(1, nullptr));
  DECANT_CHECK(data != nullptr, "PCRE2 is out of memory");
  return data.get();
}

/// A step further than an empty match at `from`.
size_t Skip(std::string_view text, size_t from) {
  return from + (from < text.size() ? LengthOfLead(text[from]) : 1);
}

/// Counts what a pattern does for a text: each item of the pattern that is tried is a step.
class StepCounter {
 public:
  explicit StepCounter(const pcre2_code* code)
      : code_(code), context_(pcre2_match_context_create(nullptr)) {
    DECANT_CHECK(context_ != nullptr, "PCRE2 is out of memory");
    pcre2_set_callout(context_.get(), &StepCounter::Step, this);
    pcre2_set_heap_limit(context_.get(), kHeapLimitKib);
  }

  /// The steps to find all matches; `limit` + 1 if there are more than `limit`.
  uint64_t Count(std::string_view text, uint64_t limit) {
    steps_ = 0;
    limit_ = limit;
    size_t from = 0;
    while (from <= text.size()) {
      const int count = pcre2_match(code_, Units(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                    MatchDataOfThread(), context_.get());
      if (count == PCRE2_ERROR_NOMATCH) break;
      if (count < 0) return limit + 1;
      const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(MatchDataOfThread());
      from = bounds[1] > from ? bounds[1] : Skip(text, from);
    }
    return steps_;
  }

 private:
  static int Step(pcre2_callout_block* /*block*/, void* counter) {
    auto* self = static_cast<StepCounter*>(counter);
    return ++self->steps_ > self->limit_ ? PCRE2_ERROR_CALLOUT : 0;
  }

  const pcre2_code* code_;
  MatchContext context_;
  uint64_t steps_ = 0;
  uint64_t limit_ = 0;
};

/// Tries the pattern on runs, and runs that something ends, of two lengths.
Status CheckWork(std::string_view pcre) {
  constexpr size_t kShort = 128;
  constexpr size_t kTimesLonger = 4;
  constexpr uint64_t kMostSteps = 200'000;  // Of the short one, whose linear work is far below.
  constexpr uint64_t kSlack = 4'000;
  constexpr std::array<std::string_view, 12> kUnits = {
      " ", "a", "A", "1", "\n", " \n", "a ", "ab", "!", "\u0301", "\u4E2D", "\u2581"};
  constexpr std::array<std::string_view, 4> kEnds = {"", "x", " ", "!"};
  Expected<Code> code =
      CompilePcre(pcre, PCRE2_AUTO_CALLOUT | PCRE2_NO_AUTO_POSSESS | PCRE2_NO_START_OPTIMIZE);
  if (!code.ok()) return code.status();
  StepCounter counter(code->get());
  for (const std::string_view unit : kUnits) {
    for (const std::string_view end : kEnds) {
      const auto text = [&](size_t units) {
        std::string repeated;
        for (size_t i = 0; i < units; ++i) repeated += unit;
        return repeated.append(end);
      };
      const uint64_t steps = counter.Count(text(kShort), kMostSteps);
      const uint64_t allowed = 2 * kTimesLonger * steps + kSlack;
      if (steps > kMostSteps || counter.Count(text(kTimesLonger * kShort), allowed) > allowed) {
        return Error(StatusCode::kUnimplemented,
                     "the pattern's work on a run of '{}' grows faster than the text",
                     unit == "\n" || unit == " \n" ? "line ends" : unit);
      }
    }
  }
  return {};
}

/// `pattern` in PCRE2's syntax.
Expected<std::string> Translate(const TextPattern& pattern) {
  if (pattern.kind == TextPattern::Kind::kLiteral) return QuoteForPcre(pattern.text);
  // Tries every position of a run in turn where the run does not end the text. The leftmost match
  // begins where the search or the run does, so that only these need be tried.
  if (pattern.text == R"(\s+$)") return std::string(R"((?:\G|(?<!\p{wspace}))\p{wspace}+$)");
  return PcreFromOniguruma(pattern.text);
}

}  // namespace

size_t GrowthOf(const TextPattern& pattern, std::string_view content) {
  // A regular expression may match between all bytes, too.
  if (pattern.kind == TextPattern::Kind::kRegex) return 1 + content.size();
  return std::max<size_t>(1, CeilDiv(content.size(), std::max<size_t>(1, pattern.text.size())));
}

struct Regex::Program {
  Code code;
  MatchContext context;
};

Regex::Regex(std::unique_ptr<Program> program) : program_(std::move(program)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Expected<Regex> Regex::Compile(const TextPattern& pattern) {
  if (pattern.text.empty() || pattern.text.size() > kMaxPatternBytes) {
    return InvalidArgument("the pattern has {} bytes; allowed: 1 to {}", pattern.text.size(),
                           kMaxPatternBytes);
  }
  if (!IsUtf8(pattern.text)) return InvalidArgument("the pattern is not UTF-8");
  const auto named = [&](const Status& status) {
    return status.WithContext(fmt::format("pattern '{}'{}", RepairUtf8(pattern.text.substr(0, 200)),
                                          pattern.text.size() > 200 ? "..." : ""));
  };
  const Expected<std::string> pcre = Translate(pattern);
  if (!pcre.ok()) return named(pcre.status());
  Expected<Code> code = CompilePcre(*pcre, 0);
  if (!code.ok()) return named(code.status());
  if (pattern.kind == TextPattern::Kind::kRegex) {
    if (const Status status = CheckWork(*pcre); !status.ok()) return named(status);
  }
  // A kernel that forbids writable code pages leaves the interpreter, which finds the same.
  pcre2_jit_compile(code->get(), PCRE2_JIT_COMPLETE);
  MatchContext context(pcre2_match_context_create(nullptr));
  DECANT_CHECK(context != nullptr, "PCRE2 is out of memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  return Regex(std::make_unique<Program>(Program{std::move(code).value(), std::move(context)}));
}

Regex::Finder::Finder(const Regex& regex, std::string_view text) : regex_(&regex), text_(text) {}

std::optional<Regex::Match> Regex::Finder::Next() {
  const Program& program = *regex_->program_;
  pcre2_match_data* const data = MatchDataOfThread();
  while (from_ <= text_.size()) {
    int count = pcre2_match(program.code.get(), Units(text_), text_.size(), from_,
                            PCRE2_NO_UTF_CHECK, data, program.context.get());
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(program.code.get(), Units(text_), text_.size(), from_,
                          PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, program.context.get());
    }
    if (count < 0) {
      from_ = text_.size() + 1;
      return std::nullopt;
    }
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data);
    const Match match{bounds[0], bounds[1]};
    if (match.begin == match.end && last_end_ == match.end) {
      from_ = Skip(text_, from_);
      continue;
    }
    from_ = match.end;
    last_end_ = match.end;
    return match;
  }
  return std::nullopt;
}

}  // namespace decant
