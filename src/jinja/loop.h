#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "jinja/value.h"

namespace decant::jinja {

/// The `loop` of a for: hands out the items that its `if` accepts and answers loop.index and the
/// like. As in jinja2 the `if` of an item is asked when the item is needed: by the turn itself, one
/// turn ahead where the body looks ahead (last, nextitem), or for all items (length).
class Loop {
 public:
  using Filter = std::function<bool(const Value& item)>;

  /// `filter` may be empty: all items are taken.
  Loop(std::shared_ptr<const Sequence> items, Filter filter);

  /// The next accepted item, which becomes the current one.
  std::optional<Value> Next();

  /// To be called after the last turn: drops the filter, whose scope may hold this loop.
  void Finish() { filter_ = nullptr; }

  /// The attribute `name`, or nullopt.
  std::optional<Value> Attribute(std::string_view name);

  /// loop.index0.
  int64_t index() const { return index_; }
  int depth() const { return items_->depth() + 1; }

 private:
  const std::optional<Value>& Peek();
  std::optional<Value> Pull();
  int64_t Length();

  std::shared_ptr<const Sequence> items_;
  Filter filter_;
  size_t cursor_ = 0;  ///< The first item that has not been pulled.
  int64_t index_ = -1;
  std::optional<Value> previous_;
  std::optional<Value> current_;
  bool peeked_ = false;
  std::optional<Value> after_;  ///< Valid if peeked_.
  std::optional<int64_t> length_;
};

}  // namespace decant::jinja
