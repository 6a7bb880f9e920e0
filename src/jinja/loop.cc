#include "jinja/loop.h"

#include <utility>
#include <vector>

#include "jinja/failure.h"

namespace decant::jinja {

Loop::Loop(std::shared_ptr<const Sequence> items, Filter filter)
    : items_(std::move(items)), filter_(std::move(filter)) {
  if (depth() > kMaxValueDepth) FailLimit("values nested more than {} levels deep", kMaxValueDepth);
}

std::optional<Value> Loop::Pull() {
  while (cursor_ < items_->items().size()) {
    const Value& item = items_->items()[cursor_++];
    if (!filter_ || filter_(item)) return item;
  }
  return std::nullopt;
}

const std::optional<Value>& Loop::Peek() {
  if (!peeked_) {
    after_ = Pull();
    peeked_ = true;
  }
  return after_;
}

std::optional<Value> Loop::Next() {
  if (!Peek().has_value()) return std::nullopt;
  peeked_ = false;
  previous_ = std::exchange(current_, std::exchange(after_, std::nullopt));
  ++index_;
  return current_;
}

int64_t Loop::Length() {
  if (length_.has_value()) return *length_;
  if (!filter_) {
    length_ = static_cast<int64_t>(items_->items().size());
    return *length_;
  }
  std::vector<Value> rest;
  while (std::optional<Value> item = Pull()) rest.push_back(*std::move(item));
  const bool has_after = peeked_ && after_.has_value();
  length_ = static_cast<int64_t>(rest.size()) + index_ + 1 + (has_after ? 1 : 0);
  items_ = std::make_shared<const Sequence>(SequenceKind::kList, std::move(rest));
  cursor_ = 0;
  filter_ = nullptr;
  return *length_;
}

std::optional<Value> Loop::Attribute(std::string_view name) {
  if (name == "index") return Value(index_ + 1);
  if (name == "index0") return Value(index_);
  if (name == "first") return Value(index_ == 0);
  if (name == "last") return Value(!Peek().has_value());
  if (name == "length") return Value(Length());
  if (name == "revindex") return Value(Length() - index_);
  if (name == "revindex0") return Value(Length() - index_ - 1);
  if (name == "depth") return Value(int64_t{1});
  if (name == "depth0") return Value(int64_t{0});
  if (name == "previtem") {
    return previous_.value_or(MakeUndefined("there is no previous item"));
  }
  if (name == "nextitem") {
    return Peek().value_or(MakeUndefined("there is no next item"));
  }
  return std::nullopt;
}

}  // namespace decant::jinja
