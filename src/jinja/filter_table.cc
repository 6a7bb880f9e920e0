#include <algorithm>
#include <iterator>

#include "jinja/builtins.h"
#include "jinja/failure.h"
#include "jinja/sequence_filters.h"
#include "jinja/text_filters.h"

namespace decant::jinja {

namespace {

constexpr FilterEntry kFilters[] = {
    {"abs", FilterAbs},           {"attr", FilterAttr},       {"capitalize", FilterCapitalize},
    {"count", FilterLength},      {"d", FilterDefault},       {"default", FilterDefault},
    {"dictsort", FilterDictSort}, {"e", FilterEscape},        {"escape", FilterEscape},
    {"first", FilterFirst},       {"float", FilterFloat},     {"indent", FilterIndent},
    {"int", FilterInt},           {"items", FilterItems},     {"join", FilterJoin},
    {"last", FilterLast},         {"length", FilterLength},   {"list", FilterList},
    {"lower", FilterLower},       {"map", FilterMap},         {"max", FilterMax},
    {"min", FilterMin},           {"reject", FilterReject},   {"rejectattr", FilterRejectAttr},
    {"replace", FilterReplace},   {"reverse", FilterReverse}, {"round", FilterRound},
    {"safe", FilterSafe},         {"select", FilterSelect},   {"selectattr", FilterSelectAttr},
    {"sort", FilterSort},         {"string", FilterString},   {"sum", FilterSum},
    {"title", FilterTitle},       {"tojson", FilterToJson},   {"trim", FilterTrim},
    {"unique", FilterUnique},     {"upper", FilterUpper},
};

}  // namespace

const FilterEntry* FindFilter(std::string_view name) {
  const auto* found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                   [&](const FilterEntry& entry) { return entry.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace decant::jinja
