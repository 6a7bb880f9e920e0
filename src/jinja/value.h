#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace decant::jinja {

class Dict;
class Loop;
class Sequence;
struct Callable;
struct Namespace;

/// A name or an attribute that does not exist; most uses of it fail with `what` as the reason.
struct Undefined {
  std::shared_ptr<const std::string> what;  ///< May be null.
};

struct None {};

/// Whether `+`, `%` and the like would escape HTML around a text, as the results of `safe` and
/// `escape` ask for. Such texts can be printed, joined and compared; the rest is refused.
enum class Markup { kNo, kYes };

struct Text {
  std::string bytes;
  Markup markup = Markup::kNo;
};

/// A value of a template: a Python object seen through jinja2's sandbox. Immutable but for
/// namespaces and iterators; copying shares. Namespaces and callables belong to the rendering, so a
/// value that holds one must not outlive it.
class Value {
 public:
  enum class Kind {
    kUndefined,
    kNone,
    kBool,
    kInt,
    kFloat,
    kText,
    kSequence,
    kDict,
    kNamespace,
    kCallable,
    kLoop,
  };

  // Implicit, so that a table of values reads like one.
  // NOLINTBEGIN(google-explicit-constructor)
  Value() : data_(Undefined{}) {}
  Value(None none) : data_(none) {}
  Value(Undefined undefined) : data_(std::move(undefined)) {}
  Value(bool value) : data_(value) {}
  Value(int64_t value) : data_(value) {}
  Value(double value) : data_(value) {}
  Value(std::string text, Markup markup = Markup::kNo)
      : data_(std::make_shared<const Text>(Text{std::move(text), markup})) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(std::shared_ptr<const Sequence> sequence) : data_(std::move(sequence)) {}
  Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  Value(std::shared_ptr<Loop> loop) : data_(std::move(loop)) {}
  Value(Namespace* space) : data_(space) {}
  Value(const Callable* callable) : data_(callable) {}
  // NOLINTEND(google-explicit-constructor)

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }

  const Undefined& undefined() const { return std::get<Undefined>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return std::get<int64_t>(data_); }
  double floating() const { return std::get<double>(data_); }
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  const Sequence& sequence() const { return *std::get<std::shared_ptr<const Sequence>>(data_); }
  const std::shared_ptr<const Sequence>& shared_sequence() const {
    return std::get<std::shared_ptr<const Sequence>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }
  Namespace& space() const { return *std::get<Namespace*>(data_); }
  const Callable& callable() const { return *std::get<const Callable*>(data_); }

  /// Python's `is` for what is shared or a singleton; false for numbers.
  bool IsSameObject(const Value& other) const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const Text>,
               std::shared_ptr<const Sequence>, std::shared_ptr<const Dict>, Namespace*,
               const Callable*, std::shared_ptr<Loop>>
      data_;
};

/// Levels of lists, dicts and loops inside each other that a value may have: what recursion over
/// values relies on.
inline constexpr int kMaxValueDepth = 100;

/// 0 for what holds no other values, else 1 more than the deepest of them.
int DepthOf(const Value& value);

/// Python's list and the other things that yield values one by one.
enum class SequenceKind {
  kList,
  kTuple,
  kRange,
  kKeys,      ///< dict.keys()
  kValues,    ///< dict.values()
  kItems,     ///< dict.items()
  kIterator,  ///< A generator: read once, has no length, always true.
};

/// The values of a list, tuple, range, dict view or generator, all made at once.
class Sequence {
 public:
  /// Fails when the values are nested too deeply.
  Sequence(SequenceKind kind, std::vector<Value> items);

  SequenceKind kind() const { return kind_; }
  const std::vector<Value>& items() const { return items_; }
  int depth() const { return depth_; }

  /// Of an iterator: the first item that is not yet read.
  size_t position() const { return position_; }
  void Advance(size_t position) const { position_ = position; }

 private:
  SequenceKind kind_;
  std::vector<Value> items_;
  int depth_ = 0;
  mutable size_t position_ = 0;
};

/// Orders the values that may be a dict's keys: None, numbers (True is 1), text and undefined.
struct KeyOrder {
  bool operator()(const Value& a, const Value& b) const;
};

/// A dict in order of insertion.
class Dict {
 public:
  struct Entry {
    Value key;
    Value value;
  };

  /// Adds an entry, or replaces the value of an equal key, which keeps its place. Fails for a key
  /// that KeyOrder does not order, and when nested too deeply.
  void Set(Value key, Value value);

  /// The value of `key`, or null; null too for what cannot be a key.
  const Value* Find(const Value& key) const;
  const Value* FindText(std::string_view key) const;

  const std::vector<Entry>& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }
  int depth() const { return depth_; }

 private:
  std::optional<size_t> IndexOf(const Value& key) const;

  std::vector<Entry> entries_;
  std::map<Value, size_t, KeyOrder> index_;  ///< Empty while the entries are few.
  int depth_ = 1;
};

/// namespace(): the one thing a template can change.
struct Namespace {
  Dict attributes;
};

Value MakeSequence(SequenceKind kind, std::vector<Value> items);
Value MakeList(std::vector<Value> items);
Value MakeTuple(std::vector<Value> items);
Value MakeDict(Dict dict);

/// Why `value`, which is undefined, is so.
std::string_view WhyUndefined(const Value& value);
Value MakeUndefined(std::string what);

/// "list", "str": the Python type, for messages.
std::string_view TypeName(const Value& value);

}  // namespace decant::jinja
