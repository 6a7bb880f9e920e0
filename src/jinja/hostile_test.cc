// Templates and variables made to break the interpreter: each ends in an error, soon.

#include <gtest/gtest.h>

#include <string>

#include "jinja/json.h"
#include "jinja/parser.h"
#include "jinja/template.h"
#include "jinja/test_json.h"

namespace decant::jinja {
namespace {

constexpr RenderLimits kSmallLimits = {
    .steps = 100'000, .work_bytes = 4u << 20, .output_bytes = 64u << 10};

std::string Times(size_t count, const std::string& text) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

Status RenderStatus(const std::string& source, const RenderLimits& limits = kSmallLimits) {
  const Expected<Template> parsed = Template::Parse(source);
  if (!parsed.ok()) return parsed.status();
  return parsed->Render(Variables(R"({"l": [1, 2, 3], "s": "text"})"), {.limits = limits}).status();
}

void ExpectExhausted(const std::string& source, const std::string& words,
                     const RenderLimits& limits = kSmallLimits) {
  const Status status = RenderStatus(source, limits);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted)
      << source.substr(0, 200) << ": " << status.ToString();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.ToString();
}

TEST(JinjaHostile, LoopsEnd) {
  const std::string range = "{% for a in range(100000) %}";
  ExpectExhausted(range + range + range + "{% endfor %}{% endfor %}{% endfor %}", "steps",
                  {.steps = 100'000});
  ExpectExhausted("{% for a in range(100001) %}{% endfor %}", "a range of more than");
  ExpectExhausted("{{ range(-9223372036854775807, 9223372036854775807) }}", "a range of more than");
  ExpectExhausted(
      "{{ ('x' * 1000000) | list | join }}{% for a in 'x' * 1000000 %}"
      "{% endfor %}",
      "bytes");
}

TEST(JinjaHostile, RecursionEnds) {
  ExpectExhausted("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep");
  ExpectExhausted("{% macro m(a=m()) %}{% endmacro %}{{ m() }}", "deep");
  ExpectExhausted(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}"
      "{{ a() }}",
      "deep");
  ExpectExhausted(
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{{ caller() }}"
      "{% endmacro %}{% call m() %}{% endcall %}",
      "deep");
}

TEST(JinjaHostile, TextStaysWithinItsLimits) {
  ExpectExhausted("{{ 'x' * 10000000000 }}", "bytes");
  ExpectExhausted("{{ [1] * 10000000000 }}", "bytes");
  ExpectExhausted("{{ ('x' * 9223372036854775807) ~ 'y' }}", "");
  ExpectExhausted(
      "{% set n = namespace(s='x') %}{% for i in range(60) %}"
      "{% set n.s = n.s ~ n.s %}{% endfor %}",
      "bytes");
  ExpectExhausted(
      "{% set n = namespace(s=[0]) %}{% for i in range(60) %}"
      "{% set n.s = n.s + n.s %}{% endfor %}",
      "bytes");
  ExpectExhausted("{% for i in range(1000) %}{{ 'x' * 1000 }}{% endfor %}", "bytes of output");
  ExpectExhausted("{{ 'x' | indent(10000000000) }}", "bytes");
  ExpectExhausted("{{ l | tojson(indent=10000000000) }}", "bytes");
  ExpectExhausted("{{ ('a' * 1000).replace('', 'b' * 100000) }}", "bytes");
  ExpectExhausted("{{ ('x' * 10000) | join('y' * 10000) }}", "bytes");
}

TEST(JinjaHostile, SharedValuesDoNotMultiply) {
  // 2^60 leaves, a hundred values.
  const std::string tree =
      "{% set n = namespace(v=['leaf']) %}{% for i in range(60) %}{% set n.v = [n.v, n.v] %}"
      "{% endfor %}";
  ExpectExhausted(tree + "{{ n.v }}", "");
  ExpectExhausted(tree + "{{ n.v | tojson }}", "");
  ExpectExhausted(tree +
                      "{% set m = namespace(v=['leaf']) %}{% for i in range(60) %}"
                      "{% set m.v = [m.v, m.v] %}{% endfor %}{{ n.v == m.v }}",
                  "steps");
  ExpectExhausted(
      "{% set n = namespace(v=1) %}{% for i in range(1000) %}{% set n.v = [n.v] %}"
      "{% endfor %}",
      "levels deep");
  ExpectExhausted(
      "{% set n = namespace(v=1) %}{% for i in range(1000) %}{% set n.v = {'k': n.v} %}"
      "{% endfor %}",
      "levels deep");
  ExpectExhausted(
      "{% set n = namespace(v=1) %}{% for i in range(1000) %}{% for x in [n.v] %}"
      "{% set n.v = loop %}{% endfor %}{% endfor %}",
      "levels deep");
}

TEST(JinjaHostile, CyclesAreFreed) {
  // A namespace that holds itself, a loop that holds its scope: found by the leak sanitizer.
  EXPECT_TRUE(RenderStatus("{% set n = namespace() %}{% set n.self = n %}{% set n.list = [n] %}"
                           "{% for x in l if x %}{% set n.loop = loop %}{% set y = loop %}"
                           "{% break %}{% endfor %}"
                           "{% macro m() %}{{ m is defined }}{% endmacro %}{% set n.m = m %}")
                  .ok());
  // What a rendering kept of a loop that has ended does not reach into scopes that are gone.
  EXPECT_TRUE(
      RenderStatus("{% set n = namespace() %}{% for x in l if x > 0 %}{% set n.loop = loop %}"
                   "{% break %}{% endfor %}{{ n.loop.index }}{{ n.loop.last }}"
                   "{{ n.loop.length }}{{ n.loop.nextitem }}")
          .ok());
}

TEST(JinjaHostile, SearchesAreLinear) {
  const std::string text = "{% set h = 'a' * 400000 %}{% set p = 'a' * 200000 ~ 'b' %}";
  for (const char* use :
       {"{{ p in h }}", "{{ h.find(p) }}", "{{ h.rfind(p) }}", "{{ h.count(p) }}",
        "{{ h.split(p) | length }}", "{{ h.rsplit(p) | length }}",
        "{{ h.replace(p, '') | length }}", "{{ h.strip('a') }}", "{{ h | trim('ab') }}"}) {
    EXPECT_TRUE(RenderStatus(text + use, {}).ok())
        << use << RenderStatus(text + use, {}).ToString();
  }
  // Reading a long text character by character is counted.
  ExpectExhausted(text + "{% for i in range(1000) %}{{ h[-1] }}{% endfor %}", "bytes",
                  {.work_bytes = 64u << 20});
}

TEST(JinjaHostile, NestedSourceIsRefused) {
  const size_t deep = 10'000;
  for (const std::string& source : {
           "{{ " + Times(deep, "(") + "1" + Times(deep, ")") + " }}",
           "{{ " + Times(deep, "[") + Times(deep, "]") + " }}",
           "{{ " + Times(deep, "{'a':") + "1" + Times(deep, "}") + " }}",
           "{{ " + Times(deep, "not ") + "1 }}",
           "{{ " + Times(deep, "-") + "1 }}",
           "{{ " + Times(deep, "1 + ") + "1 }}",
           "{{ " + Times(deep, "1 ** ") + "1 }}",
           "{{ " + Times(deep, "x and ") + "1 }}",
           "{{ " + Times(deep, "1 if x else ") + "1 }}",
           "{{ 1 " + Times(deep, "if x ") + "}}",
           "{{ x" + Times(deep, ".a") + " }}",
           "{{ x" + Times(deep, "[0]") + " }}",
           "{{ x" + Times(deep, "()") + " }}",
           "{{ x" + Times(deep, " | trim") + " }}",
           "{{ x" + Times(deep, "[x") + Times(deep, "]") + " }}",
           "{{ x" + Times(deep, "(x") + Times(deep, ")") + " }}",
           "{{ x is " + Times(deep, "in (x is ") + "none" + Times(deep, ")") + " }}",
           Times(deep, "{% if x %}") + Times(deep, "{% endif %}"),
           Times(deep, "{% for x in y %}") + Times(deep, "{% endfor %}"),
           Times(deep, "{% macro m() %}") + Times(deep, "{% endmacro %}"),
           Times(deep, "{% set x %}") + Times(deep, "{% endset %}"),
           "{% set " + Times(deep, "(") + "a" + Times(deep, ")") + " = 1 %}",
       }) {
    const Expected<Template> parsed = Template::Parse(source);
    EXPECT_EQ(parsed.status().code(), StatusCode::kResourceExhausted) << source.substr(0, 60);
  }
  // Long, not deep.
  EXPECT_TRUE(Template::Parse("{{ " + Times(deep, "1 ~ ") + "1 }}").ok());
  EXPECT_TRUE(Template::Parse("{% if x %}" + Times(deep, "{% elif x %}") + "{% endif %}").ok());
  EXPECT_TRUE(Template::Parse(Times(deep, "{{ 1 }}{# #}")).ok());
}

TEST(JinjaHostile, BytesThatAreNoTemplate) {
  for (const std::string& source :
       {std::string("\xFF"), std::string("{{ '\xC3' }}"), std::string("\xED\xA0\x80"),
        std::string("\xC0\x80"), std::string("a\xE2\x98")}) {
    EXPECT_EQ(Template::Parse(source).status().code(), StatusCode::kInvalidArgument);
  }
  const std::string nul("a\0b{{ 'c\0d' | length }}", 23);
  const Expected<Template> parsed = Template::Parse(nul);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->Render({}).value(), std::string("a\0b3", 4));
  EXPECT_FALSE(Template::Parse(std::string("{{ \0 }}", 7)).ok());
  EXPECT_EQ(Template::Parse(std::string(kMaxSourceBytes + 1, 'x')).status().code(),
            StatusCode::kResourceExhausted);
  std::string names;
  for (size_t i = 0; i <= kMaxNames; ++i) names += "{{ x" + std::to_string(i) + " }}";
  EXPECT_EQ(Template::Parse(names).status().code(), StatusCode::kResourceExhausted);
}

TEST(JinjaHostile, EveryPrefixOfATemplateIsTakenOrRefused) {
  const std::string source =
      "{%- for m in l if m -%}{{ loop.index ~ '\\n\\u00e9' }}{% else %}{# c #}{% endfor +%}"
      "{% macro a(b='x', c=[1, {'k': 2.5e3}]) %}{{ b[::-1] | join(',') }}{% endmacro %}"
      "{% call(z) a(1) %}{% endcall %}{% raw %}{{ }}{%- endraw %}{{ 1 if l is not in [2] else 3 }}";
  for (size_t length = 0; length < source.size(); ++length) {
    const Expected<Template> parsed = Template::Parse(source.substr(0, length));
    if (parsed.ok()) (void)parsed->Render(Variables(R"({"l": [1]})"));
  }
  for (size_t at = 0; at < source.size(); ++at) {
    for (const char c : {'\0', '{', '}', '%', '(', '\'', '\n', '-', '.', '|', '9', 'e'}) {
      std::string changed = source;
      changed[at] = c;
      const Expected<Template> parsed = Template::Parse(changed);
      if (parsed.ok()) (void)parsed->Render(Variables(R"({"l": [1]})"), {.limits = kSmallLimits});
    }
  }
}

TEST(JinjaHostile, BytesThatAreNoJson) {
  for (const std::string& json :
       {std::string(""), std::string("{"), std::string("[1,]"), std::string("{\"a\" 1}"),
        std::string("nul"), std::string("[1] x"), std::string("\"\\ud800\""),
        std::string("\"\xFF\""), std::string("1e999"), std::string("{\"a\":1"), std::string("'a'"),
        std::string(1, '\0'), Times(100'000, "["), Times(100'000, "{\"a\":"),
        Times(60, "[") + Times(60, "]")}) {
    const Expected<Value> value = ParseJson(json);
    EXPECT_EQ(value.status().code(), StatusCode::kInvalidArgument) << json.substr(0, 20);
  }
  EXPECT_TRUE(ParseJson(Times(50, "[") + Times(50, "]")).ok());
}

}  // namespace
}  // namespace decant::jinja
