#include "text/tokenizer_json_parts.h"

#include <array>
#include <limits>
#include <utility>

namespace decant {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostParts = 256;  ///< Of a section, nested sequences laid out flat.
const Json kNull;

/// Lays out what nested "Sequence"s hold, whose list is the member `list`.
Status Flatten(const JsonSection& section, const std::string& list,
               std::vector<JsonSection>& parts) {
  if (section.is_null()) return {};
  DECANT_ASSIGN_OR_RETURN(const std::string type, section.String("type"));
  if (type != "Sequence") {
    if (parts.size() == kMostParts) {
      return DataLoss("{}: more than {} parts", section.place(), kMostParts);
    }
    parts.push_back(section);
    return {};
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<JsonSection> elements, section.Member(list).Elements());
  for (const JsonSection& element : elements) {
    DECANT_RETURN_IF_ERROR(Flatten(element, list, parts));
  }
  return {};
}

Expected<TextPattern> ReadPattern(const JsonSection& section) {
  const JsonSection literal = section.Member("String");
  if (!literal.is_null()) {
    DECANT_ASSIGN_OR_RETURN(std::string text, literal.String());
    return TextPattern{TextPattern::Kind::kLiteral, std::move(text)};
  }
  DECANT_ASSIGN_OR_RETURN(std::string text, section.String("Regex"));
  return TextPattern{TextPattern::Kind::kRegex, std::move(text)};
}

Expected<SplitBehavior> ReadBehavior(const JsonSection& section) {
  DECANT_ASSIGN_OR_RETURN(const std::string name, section.String());
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return section.Unsupported(fmt::format("'{}'", name));
}

Expected<PrependScheme> ReadPrepend(const JsonSection& section) {
  DECANT_ASSIGN_OR_RETURN(const bool prefix, section.Bool("add_prefix_space", true));
  const JsonSection scheme = section.Member("prepend_scheme");
  if (scheme.is_null()) return prefix ? PrependScheme::kAlways : PrependScheme::kNever;
  DECANT_ASSIGN_OR_RETURN(const std::string name, scheme.String());
  if (name == "never") return PrependScheme::kNever;
  if (!prefix) {
    return DataLoss("{}: add_prefix_space is false but prepend_scheme is '{}'", section.place(),
                    name);
  }
  if (name == "always") return PrependScheme::kAlways;
  if (name == "first") return PrependScheme::kFirst;
  return scheme.Unsupported(fmt::format("'{}'", name));
}

Expected<NormalizerStep> ReadNormalizerStep(const JsonSection& part) {
  using enum NormalizerStep::Kind;
  DECANT_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  NormalizerStep step;
  if (type == "NFC") return step;
  if (type == "NFD") return NormalizerStep{.kind = kNfd};
  if (type == "NFKC") return NormalizerStep{.kind = kNfkc};
  if (type == "NFKD") return NormalizerStep{.kind = kNfkd};
  if (type == "Prepend") {
    step.kind = kPrepend;
    DECANT_ASSIGN_OR_RETURN(step.content, part.String("prepend"));
    return step;
  }
  if (type == "Replace") {
    step.kind = kReplace;
    DECANT_ASSIGN_OR_RETURN(step.pattern, ReadPattern(part.Member("pattern")));
    DECANT_ASSIGN_OR_RETURN(step.content, part.String("content"));
    return step;
  }
  if (type == "Strip") {
    step.kind = kStrip;
    DECANT_ASSIGN_OR_RETURN(step.left, part.Bool("strip_left"));
    DECANT_ASSIGN_OR_RETURN(step.right, part.Bool("strip_right"));
    return step;
  }
  return part.Unsupported(fmt::format("the normalizer '{}'", type));
}

Expected<SplitStep> ReadSplitStep(const JsonSection& part) {
  using enum SplitStep::Kind;
  DECANT_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  SplitStep step;
  if (type == "Split") {
    DECANT_ASSIGN_OR_RETURN(step.pattern, ReadPattern(part.Member("pattern")));
    DECANT_ASSIGN_OR_RETURN(step.behavior, ReadBehavior(part.Member("behavior")));
    DECANT_ASSIGN_OR_RETURN(step.invert, part.Bool("invert", false));
    return step;
  }
  if (type == "ByteLevel") {
    step.kind = kByteLevel;
    DECANT_ASSIGN_OR_RETURN(step.prefix_space, part.Bool("add_prefix_space"));
    DECANT_ASSIGN_OR_RETURN(step.use_regex, part.Bool("use_regex", true));
    return step;
  }
  if (type == "Metaspace") {
    step.kind = kMetaspace;
    DECANT_ASSIGN_OR_RETURN(step.replacement, part.String("replacement"));
    DECANT_ASSIGN_OR_RETURN(step.prepend, ReadPrepend(part));
    DECANT_ASSIGN_OR_RETURN(step.cut, part.Bool("split", true));
    return step;
  }
  if (type == "Digits") {
    step.kind = kDigits;
    DECANT_ASSIGN_OR_RETURN(const bool individual, part.Bool("individual_digits"));
    step.behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
    return step;
  }
  if (type == "Punctuation") {
    step.kind = kPunctuation;
    const JsonSection behavior = part.Member("behavior");
    if (behavior.is_null()) return step;
    DECANT_ASSIGN_OR_RETURN(step.behavior, ReadBehavior(behavior));
    return step;
  }
  if (type == "Whitespace") return SplitStep{.kind = kWhitespace};
  if (type == "WhitespaceSplit") return SplitStep{.kind = kWhitespaceSplit};
  return part.Unsupported(fmt::format("the pre-tokenizer '{}'", type));
}

Expected<DecoderStep> ReadDecoderStep(const JsonSection& part) {
  using enum DecoderStep::Kind;
  DECANT_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  DecoderStep step;
  if (type == "ByteLevel") return DecoderStep{.kind = kByteLevel};
  if (type == "ByteFallback") return DecoderStep{.kind = kByteFallback};
  if (type == "Fuse") return DecoderStep{.kind = kFuse};
  if (type == "Replace") {
    step.kind = kReplace;
    DECANT_ASSIGN_OR_RETURN(step.pattern, ReadPattern(part.Member("pattern")));
    DECANT_ASSIGN_OR_RETURN(step.content, part.String("content"));
    return step;
  }
  if (type == "Strip") {
    step.kind = kStrip;
    DECANT_ASSIGN_OR_RETURN(step.content, part.String("content"));
    DECANT_ASSIGN_OR_RETURN(step.start, part.Number("start"));
    DECANT_ASSIGN_OR_RETURN(step.stop, part.Number("stop"));
    return step;
  }
  if (type == "Metaspace") {
    step.kind = kMetaspace;
    DECANT_ASSIGN_OR_RETURN(step.content, part.String("replacement"));
    DECANT_ASSIGN_OR_RETURN(const PrependScheme prepend, ReadPrepend(part));
    step.drop = prepend != PrependScheme::kNever;
    return step;
  }
  return part.Unsupported(fmt::format("the decoder '{}'", type));
}

Status AddId(const JsonSection& id, std::vector<int32_t>& out) {
  DECANT_ASSIGN_OR_RETURN(const uint32_t number, id.Number());
  if (number > static_cast<uint32_t>(std::numeric_limits<int32_t>::max())) {
    return DataLoss("{} is {}, which is no token", id.place(), number);
  }
  out.push_back(static_cast<int32_t>(number));
  return {};
}

Expected<AroundText> ReadTemplate(const JsonSection& part) {
  AroundText around;
  bool seen = false;
  DECANT_ASSIGN_OR_RETURN(const std::vector<JsonSection> pieces, part.Member("single").Elements());
  for (const JsonSection& piece : pieces) {
    const JsonSection sequence = piece.Member("Sequence");
    if (!sequence.is_null()) {
      DECANT_ASSIGN_OR_RETURN(const std::string id, sequence.String("id"));
      if (id != "A" || seen) return piece.Unsupported("a template with more than one text");
      seen = true;
      continue;
    }
    DECANT_ASSIGN_OR_RETURN(const std::string name, piece.Member("SpecialToken").String("id"));
    const JsonSection token = part.Member("special_tokens").Member(name);
    DECANT_ASSIGN_OR_RETURN(const std::vector<JsonSection> ids, token.Member("ids").Elements());
    for (const JsonSection& id : ids) {
      DECANT_RETURN_IF_ERROR(AddId(id, seen ? around.suffix : around.prefix));
    }
  }
  if (!seen) return part.Unsupported("a template without the text");
  return around;
}

/// ["<s>", 0] of RobertaProcessing and BertProcessing.
Status ReadNamedId(const JsonSection& pair, std::vector<int32_t>& out) {
  DECANT_ASSIGN_OR_RETURN(const std::vector<JsonSection> elements, pair.Elements());
  if (elements.size() != 2) return DataLoss("{} is not a token and its id", pair.place());
  return AddId(elements[1], out);
}

Expected<AroundText> ReadProcessor(const JsonSection& part) {
  DECANT_ASSIGN_OR_RETURN(const std::string type, part.String("type"));
  AroundText around;
  if (type == "ByteLevel") return around;
  if (type == "TemplateProcessing") return ReadTemplate(part);
  if (type == "RobertaProcessing" || type == "BertProcessing") {
    DECANT_RETURN_IF_ERROR(ReadNamedId(part.Member("cls"), around.prefix));
    DECANT_RETURN_IF_ERROR(ReadNamedId(part.Member("sep"), around.suffix));
    return around;
  }
  return part.Unsupported(fmt::format("the post-processor '{}'", type));
}

template <typename Step>
Expected<std::vector<Step>> ReadSteps(const JsonSection& section, const std::string& list,
                                      Expected<Step> (*read)(const JsonSection&)) {
  std::vector<JsonSection> parts;
  DECANT_RETURN_IF_ERROR(Flatten(section, list, parts));
  std::vector<Step> steps;
  for (const JsonSection& part : parts) {
    DECANT_ASSIGN_OR_RETURN(Step step, read(part));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace

JsonSection JsonSection::Member(const std::string& key) const {
  const std::string place = fmt::format("{}.{}", place_, key);
  if (!value_->is_object()) return {kNull, place};
  const auto it = value_->find(key);
  return {it == value_->end() ? kNull : *it, place};
}

Expected<std::vector<JsonSection>> JsonSection::Elements() const {
  if (!value_->is_array()) return Wrong("a list");
  std::vector<JsonSection> elements;
  elements.reserve(value_->size());
  for (const Json& element : *value_) {
    elements.emplace_back(element, fmt::format("{}[{}]", place_, elements.size()));
  }
  return elements;
}

Expected<std::string> JsonSection::String() const {
  if (!value_->is_string()) return Wrong("a string");
  return value_->get_ref<const std::string&>();
}

Expected<bool> JsonSection::Bool() const {
  if (!value_->is_boolean()) return Wrong("true or false");
  return value_->get<bool>();
}

Expected<uint32_t> JsonSection::Number() const {
  if (!value_->is_number_unsigned() ||
      value_->get<uint64_t>() > std::numeric_limits<uint32_t>::max()) {
    return Wrong("a number from 0 to 2^32 - 1");
  }
  return value_->get<uint32_t>();
}

Expected<bool> JsonSection::Bool(const std::string& key, std::optional<bool> fallback) const {
  const JsonSection member = Member(key);
  if (member.is_null() && fallback) return *fallback;
  return member.Bool();
}

Status JsonSection::Unsupported(std::string_view what) const {
  return Error(StatusCode::kUnimplemented, "{}: {} is not supported", place_, what);
}

Status JsonSection::Wrong(std::string_view wanted) const {
  return DataLoss("{} is {}, not {}", place_, is_null() ? "missing" : value_->type_name(), wanted);
}

Expected<std::vector<NormalizerStep>> ReadNormalizer(const JsonSection& section) {
  return ReadSteps<NormalizerStep>(section, "normalizers", ReadNormalizerStep);
}

Expected<std::vector<SplitStep>> ReadPreTokenizer(const JsonSection& section) {
  return ReadSteps<SplitStep>(section, "pretokenizers", ReadSplitStep);
}

Expected<std::vector<DecoderStep>> ReadDecoder(const JsonSection& section) {
  if (section.is_null()) return std::vector<DecoderStep>{{.kind = DecoderStep::Kind::kJoin}};
  return ReadSteps<DecoderStep>(section, "decoders", ReadDecoderStep);
}

Expected<AroundText> ReadPostProcessor(const JsonSection& section) {
  std::vector<JsonSection> parts;
  DECANT_RETURN_IF_ERROR(Flatten(section, "processors", parts));
  AroundText around;
  for (const JsonSection& part : parts) {
    DECANT_ASSIGN_OR_RETURN(AroundText outer, ReadProcessor(part));
    outer.prefix.insert(outer.prefix.end(), around.prefix.begin(), around.prefix.end());
    around.prefix = std::move(outer.prefix);
    around.suffix.insert(around.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return around;
}

}  // namespace decant
