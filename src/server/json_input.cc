#include "server/json_input.h"

#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace decant {
namespace {

/// Builds a value from the events of nlohmann's parser, which neither recurses nor throws.
class ValueBuilder : public nlohmann::json_sax<Json> {
 public:
  explicit ValueBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t& /*digits*/) override {
    return Add(value);
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return Fail("not JSON"); }

  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) {
      return Fail(fmt::format("an object has the key '{}' twice", name.substr(0, 64)));
    }
    if (level.keys.size() > limits_.keys_in_an_object) {
      return Fail(fmt::format("an object has more than {} keys", limits_.keys_in_an_object));
    }
    if (++keys_ > limits_.keys) return Fail(fmt::format("more than {} keys", limits_.keys));
    level.key = std::move(name);
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return Fail(fmt::format("not JSON at byte {}", position));
  }

  Expected<Json> Take() && {
    if (error_) return InvalidArgument("{}", *error_);
    return std::move(result_);
  }

 private:
  struct Level {
    Json value;
    std::unordered_set<std::string> keys{};
    std::string key{};
  };

  bool Fail(std::string error) {
    if (!error_) error_ = std::move(error);
    return false;
  }

  bool Open(Json value) {
    if (std::cmp_greater_equal(levels_.size(), limits_.depth)) {
      return Fail(fmt::format("nested more than {} levels deep", limits_.depth));
    }
    levels_.push_back({.value = std::move(value)});
    return true;
  }

  bool Close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return Add(std::move(value));
  }

  bool Add(Json value) {
    if (++values_ > limits_.values) return Fail(fmt::format("more than {} values", limits_.values));
    if (levels_.empty()) {
      result_ = std::move(value);
      return true;
    }
    Level& level = levels_.back();
    if (level.value.is_array()) {
      level.value.push_back(std::move(value));
    } else {
      // Past the look-up of ordered_map, which is linear; that the key is new is known.
      level.value.get_ref<Json::object_t&>().push_back({std::move(level.key), std::move(value)});
    }
    return true;
  }

  const JsonLimits& limits_;
  std::vector<Level> levels_;
  Json result_;
  size_t values_ = 0;
  size_t keys_ = 0;
  std::optional<std::string> error_;
};

}  // namespace

Expected<Json> ParseJson(std::string_view text, const JsonLimits& limits) {
  ValueBuilder builder(limits);
  Json::sax_parse(text, &builder);
  return std::move(builder).Take();
}

std::string JsonText(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string_view JsonKind(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "a boolean";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return "a number";
}

}  // namespace decant
