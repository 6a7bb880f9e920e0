#include "server/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <typeinfo>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/run_header.h"
#include "server/answer.h"
#include "server/same_key.h"
#include "server/tokenize_endpoints.h"

namespace decant {
namespace {

constexpr std::string_view kModelPrefix = "/v1/models/";

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return lower;
}

/// "application/json", whatever parameters follow.
bool IsJsonType(std::string_view content_type) {
  std::string type = LowerCase(content_type.substr(0, content_type.find(';')));
  type.erase(type.find_last_not_of(" \t") + 1);
  return type == "application/json";
}

/// The path with "%41" as "A"; what is no such escape stays.
std::string PercentDecoded(std::string_view path) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  for (size_t i = 0; i < path.size(); ++i) {
    const bool escape =
        path[i] == '%' && i + 2 < path.size() && digit(path[i + 1]) >= 0 && digit(path[i + 2]) >= 0;
    decoded += escape ? static_cast<char>(digit(path[i + 1]) * 16 + digit(path[i + 2])) : path[i];
    if (escape) i += 2;
  }
  return decoded;
}

HttpResponse Version() {
  return {.body =
              JsonObject().Add("version", DECANT_VERSION).Add("commit", BuildCommit()).ToString()};
}

/// Gives the body's parameters to `use`; answers what is wrong with them, if anything is.
template <typename Use>
void WithParameters(HttpExchange& exchange, Use use) {
  const Expected<Json> body = ParseJson(exchange.request().body);
  if (!body.ok()) {
    return exchange.Respond(
        ErrorResponse(400, kInvalidRequest, "the body: " + body.status().message()));
  }
  ParameterReader reader(*body);
  use(reader);
  if (!reader.ok()) exchange.Respond(ErrorResponse(*reader.error()));
}

/// Answers with what `make` makes of the body.
void RespondWith(std::string (*make)(const ApiModel&, ParameterReader&), const ApiModel& model,
                 HttpExchange& exchange) {
  WithParameters(exchange, [&](ParameterReader& reader) {
    std::string json = make(model, reader);
    if (reader.ok()) exchange.Respond({.body = std::move(json)});
  });
}

}  // namespace

Api::Api(ApiOptions options, Engine& engine, std::shared_ptr<const Tokenizer> tokenizer,
         std::optional<ChatPrompter> prompter, RequestObserver* observer)
    : model_(std::move(options), std::move(tokenizer), std::move(prompter)),
      engine_(engine),
      observer_(observer),
      started_(UnixSeconds()) {
  using Exchange = std::shared_ptr<HttpExchange>;
  routes_["/health"].get = [this](const HttpRequest&) { return Health(); };
  routes_["/version"].get = [](const HttpRequest&) { return Version(); };
  routes_["/v1/models"] = {.access = Access::kKey,
                           .get = [this](const HttpRequest&) { return Models(); }};
  routes_[std::string(kModelPrefix)] = {
      .access = Access::kKey, .get = [this](const HttpRequest& request) { return Model(request); }};
  const auto post = [this](std::string path, Post handler) {
    routes_[std::move(path)] = {.access = Access::kKey, .post = std::move(handler)};
  };
  post("/v1/chat/completions",
       [this](const Exchange& exchange) { Complete(ApiKind::kChat, exchange); });
  post("/v1/completions",
       [this](const Exchange& exchange) { Complete(ApiKind::kCompletions, exchange); });
  post("/tokenize", [this](const Exchange& exchange) { RespondWith(Tokenize, model_, *exchange); });
  post("/detokenize",
       [this](const Exchange& exchange) { RespondWith(Detokenize, model_, *exchange); });
}

void Api::AddPage(std::string path, Page page) { routes_[std::move(path)].get = std::move(page); }

std::vector<std::string> Api::Routes() const {
  std::vector<std::string> routes;
  routes.reserve(routes_.size());
  for (const auto& [path, route] : routes_) routes.push_back((route.get ? "GET " : "POST ") + path);
  return routes;
}

void Api::Handle(const std::shared_ptr<HttpExchange>& exchange) {
  const HttpRequest& request = exchange->request();
  try {
    const Route* route = FindRoute(request.path);
    if (route == nullptr) {
      return exchange->Respond(ErrorResponse(
          404, kNotFoundError,
          fmt::format("there is nothing at {}", JsonQuote(request.path.substr(0, 256)))));
    }
    if (std::optional<HttpResponse> refusal = Refuse(*route, request)) {
      return exchange->Respond(*std::move(refusal));
    }
    if (route->get) return exchange->Respond(route->get(request));
    route->post(exchange);
  } catch (const std::exception& error) {
    // Not what it says: that may quote the request.
    LogError("request {}: an exception of type {}", request.id, typeid(error).name());
    exchange->Respond(ErrorResponse(500, kServerError, "the server has failed at this request"));
  }
}

const Api::Route* Api::FindRoute(const std::string& path) const {
  const bool is_model = path.starts_with(kModelPrefix);
  const auto found = routes_.find(is_model ? kModelPrefix : std::string_view(path));
  return found == routes_.end() ? nullptr : &found->second;
}

/// Why the request may not use the route, if so.
std::optional<HttpResponse> Api::Refuse(const Route& route, const HttpRequest& request) const {
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (route.get ? !reads : request.method != "POST") {
    const std::string allowed = route.get ? "GET, HEAD" : "POST";
    HttpResponse response =
        ErrorResponse(405, kInvalidRequest, fmt::format("this path takes {}", allowed));
    response.headers.push_back({"Allow", allowed});
    return response;
  }
  if (route.access == Access::kKey && !Knows(request)) {
    HttpResponse response =
        ErrorResponse(401, kAuthenticationError,
                      "a valid API key is needed, in the header 'Authorization: Bearer KEY'", {},
                      "invalid_api_key");
    response.headers.push_back({"WWW-Authenticate", "Bearer"});
    return response;
  }
  if (route.get) return std::nullopt;
  if (const std::optional<ApiError> error = WhyNoWork()) return ErrorResponse(*error);
  if (!IsJsonType(request.Header("Content-Type").value_or(""))) {
    return ErrorResponse(415, kInvalidRequest, "the body must be of type application/json");
  }
  return std::nullopt;
}

/// Whether the request brings one of the keys, or none is asked for.
bool Api::Knows(const HttpRequest& request) const {
  constexpr std::string_view kScheme = "bearer ";
  const std::vector<std::string>& keys = model_.options().api_keys;
  if (keys.empty()) return true;
  const std::string_view given = request.Header("Authorization").value_or("");
  if (LowerCase(given.substr(0, kScheme.size())) != kScheme) return false;
  bool known = false;
  for (const std::string& key : keys) {
    known = SameKey(given.substr(kScheme.size()), key) || known;
  }
  return known;
}

std::optional<ApiError> Api::WhyNoWork() const {
  if (shutting_down_) {
    return ApiError{
        .status = 503, .type = kUnavailableError, .message = "the server is shutting down"};
  }
  if (const Status status = engine_.Health(); !status.ok()) {
    return ApiError{.status = 503, .type = kUnavailableError, .message = status.message()};
  }
  return std::nullopt;
}

HttpResponse Api::Health() const {
  if (const std::optional<ApiError> error = WhyNoWork()) return ErrorResponse(*error);
  return {.body = JsonObject().Add("status", "ok").ToString()};
}

std::string Api::ModelJson(std::string_view name) const {
  return JsonObject()
      .Add("id", name)
      .Add("object", "model")
      .Add("created", started_)
      .Add("owned_by", "decant")
      .Add("max_model_len", model_.options().max_model_len)
      .ToString();
}

HttpResponse Api::Models() const {
  JsonArray models;
  for (const std::string& name : model_.options().served_names) models.AddJson(ModelJson(name));
  return {.body = JsonObject().Add("object", "list").Add("data", models).ToString()};
}

HttpResponse Api::Model(const HttpRequest& request) const {
  const std::string name =
      PercentDecoded(std::string_view(request.path).substr(kModelPrefix.size()));
  if (!model_.Serves(name)) return ErrorResponse(model_.NotServed(name));
  return {.body = ModelJson(name)};
}

void Api::Complete(ApiKind kind, const std::shared_ptr<HttpExchange>& exchange) {
  const int64_t arrived = SteadyNanos();
  WithParameters(*exchange, [&](ParameterReader& reader) {
    CompletionCall call = ReadCompletionCall(kind, model_, ids_.Bits(), reader);
    if (reader.ok()) Start(std::move(call), exchange, arrived);
  });
}

void Api::Start(CompletionCall call, std::shared_ptr<HttpExchange> exchange, int64_t arrived) {
  const std::lock_guard lock(admission_);
  if (const std::optional<ApiError> error = WhyNoRoom(call.choices())) {
    return exchange->Respond(ErrorResponse(*error));
  }
  const AnswerContext context{
      .engine = engine_, .tokenizer = model_.tokenizer(), .ids = ids_, .observer = observer_};
  std::make_shared<Answer>(context, std::move(call), std::move(exchange), arrived)->Submit();
}

std::optional<ApiError> Api::WhyNoRoom(int32_t choices) const {
  const EngineStats stats = engine_.Stats();
  const int64_t most = int64_t{model_.options().rows} + model_.options().max_queued_requests;
  if (choices > most) {
    return ApiError{.message = fmt::format(
                        "the request has {} choices: this server takes {} at most", choices, most),
                    .param = "prompt"};
  }
  if (int64_t{stats.waiting} + stats.running + choices <= most) return std::nullopt;
  return ApiError{.status = 429,
                  .type = kRateLimitError,
                  .message = fmt::format("the server is busy: {} requests run and {} wait",
                                         stats.running, stats.waiting),
                  .code = "queue_full"};
}

}  // namespace decant
