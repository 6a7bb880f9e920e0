#include "text/normalizer.h"

#include <utility>

#include "text/code_points.h"
#include "text/unicode_form.h"
#include "text/utf8.h"

namespace decant {
namespace {

bool ApplyForm(std::string_view text, UnicodeForm form, std::string& out) {
  if (IsPlainly(text, form)) return false;
  out = NormalizeUnicode(text, form);
  return true;
}

bool ReplaceLiteral(std::string_view text, const NormalizerStep& rule, std::string& out) {
  size_t at = text.find(rule.pattern.text);
  if (at == std::string_view::npos) return false;
  out.clear();
  out.reserve(text.size() + text.size() / 4);
  size_t from = 0;
  for (; at != std::string_view::npos; at = text.find(rule.pattern.text, from)) {
    out.append(text.substr(from, at - from)).append(rule.content);
    from = at + rule.pattern.text.size();
  }
  out.append(text.substr(from));
  return true;
}

bool ReplaceMatches(std::string_view text, const Regex& regex, std::string_view content,
                    std::string& out) {
  out.clear();
  size_t from = 0;
  bool found = false;
  Regex::Finder finder(regex, text);
  while (const std::optional<Regex::Match> match = finder.Next()) {
    out.append(text.substr(from, match->begin - from)).append(content);
    from = match->end;
    found = true;
  }
  out.append(text.substr(from));
  return found;
}

bool Strip(std::string_view text, const NormalizerStep& rule, std::string& out) {
  const size_t size = text.size();
  while (rule.left && !text.empty() && (ClassesOfFirst(text) & kSpaceClass) != 0) {
    text.remove_prefix(LengthOfLead(text[0]));
  }
  while (rule.right && !text.empty() && (ClassesOfLast(text) & kSpaceClass) != 0) {
    text.remove_suffix(LengthOfLast(text));
  }
  if (text.size() == size) return false;
  out.assign(text);
  return true;
}

Status CheckStep(const NormalizerStep& rule) {
  if (rule.content.size() > Normalizer::kMaxContentBytes) {
    return InvalidArgument("its content has {} bytes; at most {} are allowed", rule.content.size(),
                           Normalizer::kMaxContentBytes);
  }
  if (!IsUtf8(rule.content)) return InvalidArgument("its content is not UTF-8");
  if (rule.kind == NormalizerStep::Kind::kReplace && rule.pattern.text.empty()) {
    return InvalidArgument("its pattern is empty");
  }
  return {};
}

}  // namespace

Expected<Normalizer> Normalizer::Create(std::span<const NormalizerStep> steps) {
  if (steps.size() > kMaxSteps) {
    return InvalidArgument("the normalizer has {} steps; at most {} are allowed", steps.size(),
                           kMaxSteps);
  }
  Normalizer normalizer;
  size_t growth = 1;
  for (const NormalizerStep& rule : steps) {
    const std::string where = fmt::format("normalizer step {}", normalizer.steps_.size());
    if (const Status status = CheckStep(rule); !status.ok()) return status.WithContext(where);
    if (rule.kind == NormalizerStep::Kind::kReplace) {
      growth *= GrowthOf(rule.pattern, rule.content);
    }
    if (growth > kMaxGrowth) {
      return InvalidArgument("{}: text may grow {} times; at most {} are allowed", where, growth,
                             kMaxGrowth);
    }
    Step step{.rule = rule, .regex = std::nullopt};
    if (rule.kind == NormalizerStep::Kind::kReplace &&
        rule.pattern.kind == TextPattern::Kind::kRegex) {
      Expected<Regex> regex = Regex::Compile(rule.pattern);
      if (!regex.ok()) return regex.status().WithContext(where);
      step.regex = std::move(regex).value();
    }
    normalizer.steps_.push_back(std::move(step));
  }
  return normalizer;
}

std::string_view Normalizer::Apply(std::string_view text, std::string& storage) const {
  std::string changed;
  for (const Step& step : steps_) {
    if (!ApplyStep(step, text, changed)) continue;
    storage.swap(changed);
    text = storage;
  }
  return text;
}

bool Normalizer::ApplyStep(const Step& step, std::string_view text, std::string& out) {
  const NormalizerStep& rule = step.rule;
  switch (rule.kind) {
    case NormalizerStep::Kind::kNfc:
      return ApplyForm(text, UnicodeForm::kNfc, out);
    case NormalizerStep::Kind::kNfd:
      return ApplyForm(text, UnicodeForm::kNfd, out);
    case NormalizerStep::Kind::kNfkc:
      return ApplyForm(text, UnicodeForm::kNfkc, out);
    case NormalizerStep::Kind::kNfkd:
      return ApplyForm(text, UnicodeForm::kNfkd, out);
    case NormalizerStep::Kind::kPrepend:
      if (text.empty()) return false;
      out.assign(rule.content).append(text);
      return true;
    case NormalizerStep::Kind::kReplace:
      return step.regex ? ReplaceMatches(text, *step.regex, rule.content, out)
                        : ReplaceLiteral(text, rule, out);
    case NormalizerStep::Kind::kStrip:
      return Strip(text, rule, out);
  }
  return false;
}

}  // namespace decant
