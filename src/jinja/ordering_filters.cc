#include <algorithm>
#include <string>

#include "jinja/failure.h"
#include "jinja/operators.h"
#include "jinja/sequence_filters.h"
#include "jinja/unicode.h"
#include "jinja/value_text.h"

namespace decant::jinja {

namespace {

enum class Case { kIgnored, kKept };

/// What an item is ordered by: text in lower case unless case counts.
Value OrderKey(Context& context, const Value& value, Case letter_case) {
  if (!value.is(Value::Kind::kText) || letter_case == Case::kKept) return value;
  context.budget.Work(value.text().bytes.size());
  return Value(LowerCase(PlainText(value, "ordering")));
}

Case CaseOf(const Value* case_sensitive) {
  return case_sensitive != nullptr && IsTrue(*case_sensitive) ? Case::kKept : Case::kIgnored;
}

bool IsGiven(const Value* value) { return value != nullptr && !value->is(Value::Kind::kNone); }

struct Keyed {
  Value key;
  Value item;
};

/// The items in the order of their keys; equal ones keep their places, reversed or not.
std::vector<Value> SortedItems(Context& context, std::vector<Keyed> keyed, bool reverse) {
  std::vector<size_t> order(keyed.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  // IsLess fails for what has no order; merging leaves the indices valid then.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Value& first = keyed[reverse ? b : a].key;
    const Value& second = keyed[reverse ? a : b].key;
    return IsLess(context.budget, first, second);
  });
  std::vector<Value> items;
  items.reserve(order.size());
  for (const size_t index : order) items.push_back(std::move(keyed[index].item));
  return items;
}

/// The key of each item: a list, as in jinja2, of its value at `attribute`, at several with commas
/// between, or of itself.
std::vector<Keyed> KeyedItems(Context& context, const Value& input, const Value* attribute,
                              Case letter_case) {
  std::vector<Keyed> keyed;
  for (const Value& item : Iterate(context.budget, input)) {
    context.budget.Work(sizeof(Keyed));
    std::vector<Value> keys;
    const auto add_key = [&](const Value& path) {
      keys.push_back(OrderKey(context, ReadPath(context, item, path), letter_case));
    };
    if (!IsGiven(attribute)) {
      keys.push_back(OrderKey(context, item, letter_case));
    } else if (!attribute->is(Value::Kind::kText)) {
      add_key(*attribute);
    } else {
      std::string_view rest = PlainText(*attribute, "an attribute");
      for (bool more = true; more;) {
        const size_t comma = rest.find(',');
        add_key(Value(std::string(rest.substr(0, comma))));
        more = comma != std::string_view::npos;
        if (more) rest = rest.substr(comma + 1);
      }
    }
    keyed.push_back({MakeCountedList(context.budget, SequenceKind::kList, std::move(keys)), item});
  }
  return keyed;
}

enum class Extreme { kLeast, kGreatest };

Value FindExtreme(Context& context, const Value& input, const Arguments& arguments,
                  Extreme extreme) {
  const auto given = BindArguments("min and max", arguments, {"case_sensitive", "attribute"});
  const Case letter_case = CaseOf(given[0]);
  Value best = MakeUndefined("there is no item in an empty sequence");
  Value best_key;
  bool first = true;
  for (const Value& item : Iterate(context.budget, input)) {
    const Value key = OrderKey(
        context, IsGiven(given[1]) ? ReadPath(context, item, *given[1]) : item, letter_case);
    const bool better =
        first || (extreme == Extreme::kLeast ? IsLess(context.budget, key, best_key)
                                             : IsLess(context.budget, best_key, key));
    first = false;
    if (!better) continue;
    best = item;
    best_key = key;
  }
  return best;
}

}  // namespace

Value FilterSort(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool reverse = given[0] != nullptr && IsTrue(*given[0]);
  std::vector<Keyed> keyed = KeyedItems(context, input, given[2], CaseOf(given[1]));
  return MakeCountedList(context.budget, SequenceKind::kList,
                         SortedItems(context, std::move(keyed), reverse));
}

Value FilterDictSort(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  if (!input.is(Value::Kind::kDict)) Fail("dictsort needs a dict, not {}", TypeName(input));
  const std::string by = given[1] == nullptr ? "key" : PlainText(*given[1], "dictsort");
  if (by != "key" && by != "value") Fail("dictsort goes by key or value, not '{}'", by);
  const bool reverse = given[2] != nullptr && IsTrue(*given[2]);
  std::vector<Keyed> keyed;
  for (const Dict::Entry& entry : input.dict().entries()) {
    context.budget.Work(sizeof(Keyed) + sizeof(Sequence) + 2 * sizeof(Value));
    keyed.push_back({OrderKey(context, by == "key" ? entry.key : entry.value, CaseOf(given[0])),
                     MakeTuple({entry.key, entry.value})});
  }
  return MakeCountedList(context.budget, SequenceKind::kList,
                         SortedItems(context, std::move(keyed), reverse));
}

Value FilterUnique(Context& context, const Value& input, const Arguments& arguments) {
  const auto given = BindArguments("unique", arguments, {"case_sensitive", "attribute"});
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : Iterate(context.budget, input)) {
    context.budget.Work(sizeof(Dict::Entry));
    Value key = OrderKey(context, IsGiven(given[1]) ? ReadPath(context, item, *given[1]) : item,
                         CaseOf(given[0]));
    if (seen.Find(key) != nullptr) continue;
    seen.Set(std::move(key), Value(true));
    out.push_back(item);
  }
  return MakeCountedList(context.budget, SequenceKind::kIterator, std::move(out));
}

Value FilterMin(Context& context, const Value& input, const Arguments& arguments) {
  return FindExtreme(context, input, arguments, Extreme::kLeast);
}

Value FilterMax(Context& context, const Value& input, const Arguments& arguments) {
  return FindExtreme(context, input, arguments, Extreme::kGreatest);
}

}  // namespace decant::jinja
