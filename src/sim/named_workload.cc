#include "sim/named_workload.h"

#include <charconv>
#include <string>
#include <vector>

namespace decant {
namespace {

constexpr int32_t kUniformBudget = 128;  // of pN, as the benches have it

/// Takes `prefix` and a number off the front of `text`.
template <typename T>
bool TakeNumber(std::string_view& text, std::string_view prefix, T& value) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

}  // namespace

Expected<WorkloadOptions> ParseWorkloadName(std::string_view name) {
  WorkloadOptions options;
  std::string_view rest = name;
  bool known = TakeNumber(rest, "mixed seed ", options.seed);
  if (int32_t length = 0; !known && TakeNumber(rest, "p", length)) {
    known = true;
    options.prompt_lengths = {length};
    options.min_budget = options.max_budget = kUniformBudget;
  }
  if (known && !rest.empty()) known = TakeNumber(rest, " scale ", options.scale) && rest.empty();
  if (!known || !ValidateWorkloadOptions(options).ok()) {
    return DataLoss(
        "the workload is '{}'; known: 'mixed seed N' and 'pN', with or without ' scale X'", name);
  }
  return options;
}

Expected<Workload> NamedWorkloadOf(std::string_view name, int32_t count) {
  DECANT_ASSIGN_OR_RETURN(const WorkloadOptions options, ParseWorkloadName(name));
  const std::vector<Token> alphabet = {0};
  return MakeWorkload(std::string(name), options, count, alphabet);
}

}  // namespace decant
