#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "server/completion_request.h"
#include "server/embedded_files.h"
#include "server/pages.h"
#include "server/test_api.h"
#include "server/tokenize_endpoints.h"

namespace decant {
namespace {

Json Document() { return ParseJson(OpenApiPage().body).value(); }

/// `schema`, or what its $ref names.
const Json& Resolve(const Json& document, const Json& schema) {
  if (!schema.contains("$ref")) return schema;
  const std::string reference = schema["$ref"].get<std::string>().substr(1);
  return document.at(Json::json_pointer(reference));
}

std::set<std::string> Properties(const Json& document, const std::string& schema) {
  std::set<std::string> names;
  for (const auto& [name, value] : document["components"]["schemas"][schema]["properties"].items())
    names.insert(name);
  return names;
}

std::set<std::string> Names(std::span<const std::string_view> names) {
  return {names.begin(), names.end()};
}

/// Every $ref in the document.
void CollectReferences(const Json& value, std::set<std::string>& references) {
  if (value.is_object() && value.contains("$ref")) references.insert(value["$ref"]);
  if (!value.is_structured()) return;
  for (const Json& element : value) CollectReferences(element, references);
}

TEST(OpenApiTest, ParsesAndHoldsTogether) {
  const Json document = Document();
  EXPECT_EQ(document["openapi"], "3.1.0");
  EXPECT_THAT(document["info"]["version"].get<std::string>(),
              ::testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  std::set<std::string> references;
  CollectReferences(document, references);
  EXPECT_GT(references.size(), 30);
  for (const std::string& reference : references) {
    EXPECT_TRUE(document.contains(Json::json_pointer(reference.substr(1)))) << reference;
  }
  for (const auto& [name, schema] : document["components"]["schemas"].items()) {
    const std::string reference = "#/components/schemas/" + name;
    EXPECT_TRUE(references.contains(reference)) << name << " is used nowhere";
    if (!schema.contains("required")) continue;
    for (const Json& required : schema["required"]) {
      EXPECT_TRUE(schema["properties"].contains(required.get<std::string>())) << name << required;
    }
  }
}

TEST(OpenApiTest, ListsTheRoutesThatThereAre) {
  TestApi api({});
  ServerMetrics metrics({}, api.engine());
  const StatusPage status({}, api.engine());
  AddPages(*api, metrics, status);
  std::vector<std::string> listed;
  const Json document = Document();
  for (const auto& [path, operations] : document["paths"].items()) {
    std::string route = path;
    if (const size_t parameter = route.find('{'); parameter != std::string::npos)
      route.resize(parameter);
    for (const auto& [method, operation] : operations.items())
      listed.push_back((method == "get" ? "GET " : "POST ") + route);
  }
  EXPECT_THAT(api->Routes(), ::testing::UnorderedElementsAreArray(listed));
  for (const char* path : {"/", "/status.json", "/metrics", "/openapi.json"}) {
    EXPECT_EQ(api.Get(path).status, 200) << path;
  }
}

TEST(OpenApiTest, ListsTheParametersThatAreRead) {
  const Json document = Document();
  EXPECT_EQ(Properties(document, "ChatRequest"), Names(ParameterNames(ApiKind::kChat)));
  EXPECT_EQ(Properties(document, "CompletionRequest"),
            Names(ParameterNames(ApiKind::kCompletions)));
  EXPECT_EQ(Properties(document, "TokenizeRequest"), Names(TokenizeParameterNames()));
  EXPECT_EQ(Properties(document, "DetokenizeRequest"), Names(DetokenizeParameterNames()));
}

/// A whole request with one parameter set.
Json Request(const std::string& schema, const std::string& name, const Json& value) {
  Json request = {{"model", kModelName}};
  if (schema == "ChatRequest") {
    request["messages"] = Json::array({{{"role", "user"}, {"content", "hi"}}});
    if (name == "top_logprobs") request["logprobs"] = true;
  } else {
    request["prompt"] = "hi";
  }
  request[name] = value;
  return request;
}

/// The least steps beyond the bounds of numbers are refused by name, and the bounds are not.
TEST(OpenApiTest, BoundsOfNumbersAreThoseOfTheApi) {
  TestApi api({.rows = 16, .max_model_len = 400});
  const Json document = Document();
  int checked = 0;
  for (const std::string schema : {"ChatRequest", "CompletionRequest"}) {
    const std::string path = schema == "ChatRequest" ? "/v1/chat/completions" : "/v1/completions";
    const auto blames = [&](const std::string& name, const Json& value) {
      const HttpResponse response = api.Post(path, Request(schema, name, value).dump());
      if (response.status == 200) return false;
      EXPECT_EQ(response.status, 400) << response.body;
      const Json error = Json::parse(response.body)["error"];
      return error["param"] == name && error["code"].is_null() &&
             error["message"].get<std::string>().find("must be") != std::string::npos;
    };
    for (const auto& [name, reference] :
         document["components"]["schemas"][schema]["properties"].items()) {
      const Json& type = Resolve(document, reference);
      // Beyond the bounds of `seed` are numbers that JSON readers tell apart differently.
      if (name == "seed" || !type.contains("maximum")) continue;
      ++checked;
      const bool whole = type["type"][0] == "integer";
      EXPECT_TRUE(blames(name, type["maximum"].get<double>() + (whole ? 1 : 0.01))) << name;
      EXPECT_FALSE(blames(name, type["maximum"])) << name;
      if (type.contains("exclusiveMinimum")) {
        EXPECT_TRUE(blames(name, type["exclusiveMinimum"])) << name;
        EXPECT_FALSE(blames(name, 0.01)) << name;
      } else {
        EXPECT_TRUE(blames(name, type["minimum"].get<double>() - (whole ? 1 : 0.01))) << name;
        EXPECT_FALSE(blames(name, type["minimum"])) << name;
      }
      EXPECT_FALSE(blames(name, nullptr)) << name;
      EXPECT_TRUE(blames(name, "1")) << name;
    }
  }
  EXPECT_EQ(checked, 12 + 11);
}

}  // namespace
}  // namespace decant
