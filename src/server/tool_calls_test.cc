#include "server/tool_calls.h"

#include <gtest/gtest.h>

#include <string>

namespace decant {
namespace {

/// "content|name(arguments)…", with the text given in pieces of `step` bytes.
std::string Parse(const std::string& text, size_t step, size_t max_calls = 100) {
  ToolCallParser parser(max_calls);
  std::string content;
  std::string calls;
  const auto take = [&](const ToolCallParser::Piece& piece) {
    content += piece.content;
    for (const ToolCall& call : piece.calls) calls += call.name + "(" + call.arguments + ")";
  };
  for (size_t i = 0; i < text.size(); i += step) take(parser.Push(text.substr(i, step)));
  take(parser.Finish());
  EXPECT_EQ(parser.found(), !calls.empty());
  return content + "|" + calls;
}

void ExpectParsed(const std::string& text, const std::string& expected) {
  for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, text.size()}) {
    EXPECT_EQ(Parse(text, step), expected) << text << " in pieces of " << step;
  }
}

TEST(ToolCallsTest, FindsCallsHoweverTheTextIsCut) {
  ExpectParsed(R"(<tool_call>
{"name": "f", "arguments": {"x": [1, "é"]}}
</tool_call>)",
               R"(|f({"x":[1,"é"]}))");
  ExpectParsed(R"(I look.

<tool_call>{"name": "f", "arguments": {}}</tool_call>
<tool_call>{"arguments": {"b": 1, "a": 2}, "name": "g"}</tool_call>
 So. )",
               R"(I look.So. |f({})g({"b":1,"a":2}))");
  ExpectParsed(R"(<tool_call>{"name": "f", "arguments": "{\"x\": 1}"}</tool_call>)",
               R"(|f({"x": 1}))");
  // The end of the text ends a call too.
  ExpectParsed(R"(a <tool_call>{"name": "f", "arguments": {}})", "a|f({})");
}

TEST(ToolCallsTest, WhatIsNoCallStaysText) {
  for (const std::string& text :
       {std::string("plain \n text \n"), std::string("a <tool_cal"), std::string("<<tool_call"),
        std::string("a\n<tool_call>not JSON</tool_call>\nb"), std::string("<tool_call>"),
        std::string("x <tool_call>{\"name\": \"f\"}</tool_call> "),
        std::string("<tool_call>{\"name\": 1, \"arguments\": {}}</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\", \"arguments\": [1]}</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1"),
        std::string("</tool_call>"), "<tool_call>" + std::string(1000, '[')}) {
    ExpectParsed(text, text + "|");
  }
}

TEST(ToolCallsTest, KeepsToTheNumberOfCalls) {
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  EXPECT_EQ(Parse(call + "\n" + call, 5, 1), "|f({})");
}

}  // namespace
}  // namespace decant
