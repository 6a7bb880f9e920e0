// The language against Python's jinja2: random programs with its results, as stored in
// tests/data/chat, and what the subset leaves out.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jinja/template.h"
#include "jinja/test_json.h"

namespace decant::jinja {
namespace {

Expected<std::string> Render(const std::string& source, const std::string& variables = "{}") {
  DECANT_ASSIGN_OR_RETURN(const Template parsed, Template::Parse(source));
  return parsed.Render(Variables(variables));
}

/// The text, or the error in angle brackets.
std::string Text(const std::string& source, const std::string& variables = "{}") {
  const Expected<std::string> text = Render(source, variables);
  return text.ok() ? text.value() : fmt::format("<{}>", text.status().ToString());
}

std::string ParseError(const std::string& source) {
  const Expected<Template> parsed = Template::Parse(source);
  return parsed.ok() ? "" : parsed.status().ToString();
}

TEST(JinjaLanguage, RandomProgramsRenderAsInJinja2) {
  const nlohmann::json data = ReadGzJson("chat/programs.json.gz");
  const Dict variables = Variables(data["variables"].get<std::string>());
  int errors = 0;
  for (const auto& program : data["programs"]) {
    const std::string source = program[0].get<std::string>();
    const Expected<Template> parsed = Template::Parse(source);
    const Expected<std::string> text =
        parsed.ok() ? parsed->Render(variables) : Expected<std::string>(parsed.status());
    if (program[1].is_null()) {
      ++errors;
      EXPECT_FALSE(text.ok()) << source << "\ngave: " << text.value();
      continue;
    }
    EXPECT_TRUE(text.ok()) << source << "\n" << text.status().ToString();
    EXPECT_EQ(text.ok() ? text.value() : "", program[1].get<std::string>()) << source;
  }
  EXPECT_GE(data["programs"].size(), 1000u);
  EXPECT_GT(errors, 100);
}

TEST(JinjaLanguage, UndefinedPrintsNothingAndFailsInUse) {
  EXPECT_EQ(Text("[{{ x }}{{ x | default('d') }}{% for i in x %}{{ i }}{% endfor %}]"), "[d]");
  EXPECT_EQ(Text("{{ d.missing is defined }}{{ 'a' ~ d.missing }}", R"({"d": {}})"), "Falsea");
  EXPECT_EQ(Text("{{ 1 }}\n{{ x.y }}"), "<invalid argument: line 2: 'x' is undefined>");
  EXPECT_EQ(Text("{{ 'a' + d.k }}", R"({"d": {}})"),
            "<invalid argument: line 1: a dict has no 'k'>");
}

TEST(JinjaLanguage, IntegersAreOf64Bits) {
  EXPECT_EQ(Text("{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }}"),
            "9223372036854775807 -9223372036854775808");
  for (const char* source :
       {"{{ 9223372036854775807 + 1 }}", "{{ 9223372036854775808 }}", "{{ 2 ** 63 }}",
        "{{ (-9223372036854775807 - 1) // -1 }}", "{{ -(-9223372036854775807 - 1) }}",
        "{{ (-9223372036854775807 - 1) | abs }}", "{{ 1e300 | int }}",
        "{{ '9223372036854775808' | int }}", "{{ 9223372036854775807 * 9223372036854775807 }}"}) {
    EXPECT_EQ(Render(source).status().code(), StatusCode::kUnimplemented) << source;
  }
  EXPECT_EQ(Text("{{ (-9223372036854775807 - 1) % -1 }}"), "0");
}

TEST(JinjaLanguage, ValuesCannotBeChanged) {
  for (const char* source : {"{{ l.append(1) }}", "{{ l.pop() }}", "{{ d.update({}) }}",
                             "{{ d.pop('a') }}", "{{ l.sort() }}", "{{ d.setdefault('x', 1) }}"}) {
    const Status status = Render(source, R"({"l": [1], "d": {"a": 1}})").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << source;
    EXPECT_NE(status.message().find("may not change"), std::string::npos) << source;
  }
  EXPECT_NE(Text("{% set d.x = 1 %}", R"({"d": {}})").find("is not a namespace"),
            std::string::npos);
  EXPECT_NE(Text("{% set n = namespace(_a=1) %}").find("'_'"), std::string::npos);
}

TEST(JinjaLanguage, WhatTheSubsetLeavesOutIsRefusedAtLoad) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{% include 'x' %}", "line 2: not supported: the tag 'include'"},
      {"{% extends 'x' %}", "the tag 'extends'"},
      {"{% block b %}{% endblock %}", "the tag 'block'"},
      {"{% import 'x' as y %}", "the tag 'import'"},
      {"{% from 'x' import y %}", "the tag 'from'"},
      {"{% do l.append(1) %}", "the tag 'do'"},
      {"{% autoescape true %}{% endautoescape %}", "the tag 'autoescape'"},
      {"{% trans %}{% endtrans %}", "the tag 'trans'"},
      {"\n\n{{ x | urlize }}", "line 3: not supported: the filter 'urlize'"},
      {"{% if false %}{{ x | format(1) }}{% endif %}", "the filter 'format'"},
      {"{{ l | map('nope') }}", "the filter 'nope'"},
      {"{{ l | select('nope') }}", "the test 'nope'"},
      {"{{ l | rejectattr('a', 'nope') }}", "the test 'nope'"},
      {"{{ x is\n upper }}", "line 2: not supported: the test 'upper'"},
      {"{{ x.format(1) }}", "the method 'format'"},
      {"{{ x.__class__ }}", "the attribute '__class__'"},
      {"{{ x.__class__.__mro__ }}", "the attribute '__class__'"},
      {"{% for x in l recursive %}{% endfor %}", "a recursive for"},
      {"{{ l[1, 2] }}", "several indices"},
      {"{{ '\\N{DASH}' }}", "the escape \\N"},
      {"{{ '\\ud800' }}", "a string with a surrogate"},
  };
  for (const auto& [source, words] : cases) {
    const std::string error = ParseError(source);
    EXPECT_EQ(error.rfind("unimplemented: line ", 0), 0u) << source << ": " << error;
    EXPECT_NE(error.find(words), std::string::npos) << source << ": " << error;
  }
}

TEST(JinjaLanguage, WhatOnlyARenderingShowsIsRefusedThen) {
  for (const char* source :
       {"{{ range(3) }}", "{{ [1] | map('string') }}", "{{ namespace(a=1) }}", "{{ range }}",
        "{{ '%s' % 1 }}", "{{ ('<b>' | safe) + 'x' }}", "{{ ('<b>' | escape).upper() }}",
        "{{ 'a'.format }}", "{{ 'stra\u00DFe' | upper }}", "{{ 1 is sameas 1 }}",
        "{{ strftime_now('%10000000Y') }}", "{{ (-8) ** 0.5 }}", "{{ [1] | map('map', 'x') }}"}) {
    EXPECT_EQ(Render(source).status().code(), StatusCode::kUnimplemented)
        << source << ": " << Text(source);
  }
}

TEST(JinjaLanguage, SyntaxErrorsNameTheirLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"a\n{{ x", "line 2: a tag without its end '}}'"},
      {"{% if x %}", "line 1: the template ends where 'endif' is expected"},
      {"{% for x in y %}\n{% endif %}", "line 2: 'endif' where 'endfor' is expected"},
      {"{% endfor %}", "an unexpected 'endfor'"},
      {"{% else %}", "an unexpected 'else'"},
      {"{{ }}", "where an expression is expected"},
      {"{{ 1 + }}", "where an expression is expected"},
      {"{{ (1 }}", "a '}' where ')' is expected"},
      {"{{ 1 ) }}", "an unexpected ')'"},
      {"{{ a b }}", "'b' where '}}' is expected"},
      {"{{ 'abc }}", "a string without its end"},
      {"{# abc", "a comment without its end"},
      {"{% raw %}x", "a raw block without its end"},
      {"{% break %}", "'break' outside a loop"},
      {"{% for x in y %}{% set z %}{% break %}{% endset %}{% endfor %}", "'break' outside a loop"},
      {"{% set 1 = 2 %}", "where a name is expected"},
      {"{% set true = 2 %}", "'true' cannot be assigned to"},
      {"{% macro m(a=1, b) %}{% endmacro %}", "without a default"},
      {"{% macro m(a, a) %}{% endmacro %}", "two parameters named 'a'"},
      {"{{ f(a=1, 2) }}", "a positional argument behind a named one"},
      {"{{ f(*x, 2) }}", "a positional argument behind a named one"},
      {"{{ f(**x, *y) }}", "an argument behind '**'"},
      {"{{ f(*x, *y) }}", "a positional argument behind a named one"},
      {"{{ x is defined is none }}", "several tests"},
      {"{{ \u00E9 }}", "an unexpected character U+00E9"},
      {"{{ $ }}", "an unexpected character U+0024"},
      {"{{ '\\x4' }}", "escape"},
      {"{% %}", "where a name is expected"},
      {"{{ x | }}", "where a name is expected"},
      {"{% call x %}{% endcall %}", "a call block without a call"},
  };
  for (const auto& [source, words] : cases) {
    const std::string error = ParseError(source);
    EXPECT_EQ(error.rfind("invalid argument: line ", 0), 0u) << source << ": " << error;
    EXPECT_NE(error.find(words), std::string::npos) << source << ": " << error;
  }
}

TEST(JinjaLanguage, RaiseExceptionKeepsTheTemplatesWords) {
  EXPECT_EQ(Text("a\n{{ raise_exception('Roles must alternate: ' ~ 1) }}"),
            "<invalid argument: Roles must alternate: 1>");
}

TEST(JinjaLanguage, AttributesPreferMethodsAndIndicesPreferEntries) {
  const std::string variables = R"({"d": {"items": 5, "get": 6, "a b": 7}})";
  EXPECT_EQ(Text("{{ d['items'] }}{{ d['a b'] }}{{ d.items() | list | length }}", variables),
            "573");
  EXPECT_EQ(
      Text("{{ d.get is defined }}{{ d.get is number }}{{ d['keys'] is callable }}", variables),
      "TrueFalseTrue");
}

TEST(JinjaJson, NumbersAndKeys) {
  EXPECT_EQ(
      Text("{{ v }}", R"({"v": [9223372036854775807, 9223372036854775808, 1e2, -0.5, 1e-7]})"),
      "[9223372036854775807, 9.223372036854776e+18, 100.0, -0.5, 1e-07]");
  EXPECT_EQ(Text("{{ v }}", R"({"v": {"a": 1, "b": 2, "a": 3}})"), "{'a': 3, 'b': 2}");
}

}  // namespace
}  // namespace decant::jinja
