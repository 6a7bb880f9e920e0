#include "jinja/test_json.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>

#include "base/check.h"
#include "jinja/json.h"

namespace decant::jinja {

nlohmann::json ReadGzJson(const std::string& name) {
  gzFile file = gzopen(fmt::format("{}/{}", DECANT_TEST_DATA, name).c_str(), "rb");
  DECANT_CHECK(file != nullptr, "cannot open {}", name);
  std::string text;
  std::array<char, 65536> buffer{};
  int read = 0;
  while ((read = gzread(file, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), static_cast<size_t>(read));
  }
  DECANT_CHECK(read == 0 && gzclose(file) == Z_OK, "cannot read {}", name);
  return nlohmann::json::parse(text);
}

Dict Variables(const std::string& json) {
  Expected<Value> value = ParseJson(json);
  DECANT_CHECK(value.ok() && value->is(Value::Kind::kDict), "not an object: {}", json);
  return value->dict();
}

}  // namespace decant::jinja
