#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "jinja/failure.h"
#include "jinja/json.h"

namespace decant::jinja {

namespace {

constexpr size_t kMaxJsonDepth = kMaxValueDepth / 2;

/// Builds a value from the events of nlohmann's parser, which does not recurse.
class ValueBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Add(None{}); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(int64_t{value}); }
  bool number_unsigned(number_unsigned_t value) override {
    if (std::in_range<int64_t>(value)) return Add(static_cast<int64_t>(value));
    return Add(static_cast<double>(value));
  }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return Add(double{value});
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }

  bool start_object(size_t /*size*/) override { return Open(Container::kObject); }
  bool start_array(size_t /*size*/) override { return Open(Container::kArray); }
  bool key(string_t& value) override {
    levels_.back().key = std::move(value);
    return true;
  }
  bool end_object() override {
    Dict dict = std::move(levels_.back().dict);
    levels_.pop_back();
    return Add(MakeDict(std::move(dict)));
  }
  bool end_array() override {
    std::vector<Value> items = std::move(levels_.back().items);
    levels_.pop_back();
    return Add(MakeList(std::move(items)));
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    error_ = fmt::format("not JSON at byte {}", position);
    return false;
  }

  Expected<Value> Take() && {
    if (error_.has_value()) return InvalidArgument("{}", *error_);
    return std::move(result_);
  }
  void SetError(std::string error) {
    if (!error_.has_value()) error_ = std::move(error);
  }

 private:
  enum class Container { kArray, kObject };
  struct Level {
    Container container = Container::kArray;
    std::vector<Value> items;
    Dict dict;
    std::string key;
  };

  bool Open(Container container) {
    if (levels_.size() >= kMaxJsonDepth) {
      SetError(fmt::format("JSON nested more than {} levels deep", kMaxJsonDepth));
      return false;
    }
    levels_.emplace_back().container = container;
    return true;
  }

  bool Add(Value value) {
    if (levels_.empty()) {
      result_ = std::move(value);
    } else if (levels_.back().container == Container::kObject) {
      levels_.back().dict.Set(Value(std::move(levels_.back().key)), std::move(value));
    } else {
      levels_.back().items.push_back(std::move(value));
    }
    return true;
  }

  std::vector<Level> levels_;
  Value result_;
  std::optional<std::string> error_;
};

}  // namespace

Expected<Value> ParseJson(std::string_view json) {
  ValueBuilder builder;
  if (!nlohmann::json::sax_parse(json.begin(), json.end(), &builder)) builder.SetError("not JSON");
  return std::move(builder).Take();
}

}  // namespace decant::jinja
