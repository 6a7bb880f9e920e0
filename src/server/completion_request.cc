#include "server/completion_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <memory>
#include <utility>

#include "server/chat_input.h"
#include "server/prompt_input.h"
#include "text/stop_matcher.h"

namespace decant {
namespace {

constexpr int32_t kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr int32_t kDefaultCompletionTokens = 16;
/// Over these a number is a mistake, and large ones would overflow.
constexpr float kMaxTemperature = 100.0F;
constexpr float kMaxRepetitionPenalty = 100.0F;

constexpr std::array<std::string_view, 28> kChatParameters = {"add_generation_prompt",
                                                              "chat_template_kwargs",
                                                              "frequency_penalty",
                                                              "ignore_eos",
                                                              "logit_bias",
                                                              "logprobs",
                                                              "max_completion_tokens",
                                                              "max_tokens",
                                                              "messages",
                                                              "min_p",
                                                              "min_tokens",
                                                              "model",
                                                              "n",
                                                              "parallel_tool_calls",
                                                              "presence_penalty",
                                                              "repetition_penalty",
                                                              "response_format",
                                                              "seed",
                                                              "stop",
                                                              "stream",
                                                              "stream_options",
                                                              "temperature",
                                                              "tool_choice",
                                                              "tools",
                                                              "top_k",
                                                              "top_logprobs",
                                                              "top_p",
                                                              "user"};

constexpr std::array<std::string_view, 22> kCompletionParameters = {"add_special_tokens",
                                                                    "echo",
                                                                    "frequency_penalty",
                                                                    "ignore_eos",
                                                                    "logit_bias",
                                                                    "logprobs",
                                                                    "max_tokens",
                                                                    "min_p",
                                                                    "min_tokens",
                                                                    "model",
                                                                    "n",
                                                                    "presence_penalty",
                                                                    "prompt",
                                                                    "repetition_penalty",
                                                                    "seed",
                                                                    "stop",
                                                                    "stream",
                                                                    "stream_options",
                                                                    "temperature",
                                                                    "top_k",
                                                                    "top_p",
                                                                    "user"};

/// Routers for vLLM and SGLang write these into every request, with their own defaults.
constexpr std::array<FixedFlag, 7> kFixedFlags = {{{.name = "continue_final_message"},
                                                   {.name = "include_reasoning", .value = true},
                                                   {.name = "no_stop_trim"},
                                                   {.name = "return_hidden_states"},
                                                   {.name = "separate_reasoning", .value = true},
                                                   {.name = "skip_special_tokens", .value = true},
                                                   {.name = "stream_reasoning", .value = true}}};

std::string ReadModel(const ApiModel& model, ParameterReader& reader) {
  const std::optional<std::string> name = reader.String("model");
  if (!name) {
    reader.Fail("model", fmt::format("'model' is missing: this server has '{}'",
                                     model.options().served_names.front()));
  } else if (!model.Serves(*name)) {
    reader.Fail(model.NotServed(*name));
  }
  return name.value_or("");
}

std::vector<std::string> ReadStops(ParameterReader& reader) {
  const Json* value = reader.Find("stop");
  if (value == nullptr) return {};
  std::vector<std::string> stops;
  const bool is_list = value->is_array() && value->size() <= StopMatcher::kMaxStrings &&
                       std::ranges::all_of(*value, [](const Json& e) { return e.is_string(); });
  if (value->is_string()) {
    stops.push_back(value->get<std::string>());
  } else if (is_list) {
    stops = value->get<std::vector<std::string>>();
  } else {
    reader.Fail("stop", fmt::format("'stop' must be a string or an array of at most {} strings",
                                    StopMatcher::kMaxStrings));
  }
  if (const Status status = StopMatcher::Create(stops).status(); !status.ok()) {
    reader.Fail("stop", fmt::format("'stop': {}", status.message()));
  }
  return stops;
}

std::shared_ptr<const LogitBias> ReadLogitBias(const ApiModel& model, ParameterReader& reader) {
  const Json* value = reader.Find("logit_bias");
  if (value == nullptr) return nullptr;
  if (!value->is_object() || value->size() > kMaxLogitBiases) {
    reader.Fail("logit_bias",
                fmt::format("'logit_bias' must be an object of at most {} token ids, as strings, "
                            "with numbers from {} to {}",
                            kMaxLogitBiases, -kMaxLogitBias, kMaxLogitBias));
    return nullptr;
  }
  LogitBias biases;
  for (const auto& [key, bias] : value->items()) {
    Token token = -1;
    const char* const end = key.data() + key.size();
    const auto [parsed, failure] = std::from_chars(key.data(), end, token);
    if (failure != std::errc() || parsed != end || token < 0 ||
        token >= model.options().vocab_size) {
      reader.Fail("logit_bias", fmt::format("'logit_bias' has the key {}: it must be a token id "
                                            "from 0 to {}",
                                            Excerpt(key), model.options().vocab_size - 1));
      return nullptr;
    }
    const double number = bias.is_number() ? bias.get<double>() : kMaxLogitBias + 1.0;
    if (!(number >= -kMaxLogitBias && number <= kMaxLogitBias)) {
      reader.Fail("logit_bias",
                  fmt::format("'logit_bias' of token {} is {}: it must be a number from {} to {}",
                              token, Excerpt(bias), -kMaxLogitBias, kMaxLogitBias));
      return nullptr;
    }
    biases.push_back({.token = token, .bias = static_cast<float>(number)});
  }
  return std::make_shared<const LogitBias>(std::move(biases));
}

/// How many most likely tokens to report, if log-probabilities are asked for.
std::optional<int32_t> ReadLogprobs(ApiKind kind, ParameterReader& reader) {
  if (kind == ApiKind::kCompletions) {
    const std::optional<int64_t> top = reader.Integer("logprobs", 0, kMaxLogprobs);
    return top ? std::optional(static_cast<int32_t>(*top)) : std::nullopt;
  }
  const bool wanted = reader.Bool("logprobs").value_or(false);
  const std::optional<int64_t> top = reader.Integer("top_logprobs", 0, kMaxLogprobs);
  if (top && !wanted) reader.Fail("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  return wanted ? std::optional(static_cast<int32_t>(top.value_or(0))) : std::nullopt;
}

SamplingParams ReadSampling(ApiKind kind, const ApiModel& model, uint64_t seed,
                            ParameterReader& reader) {
  const GenerationDefaults& defaults = model.options().defaults;
  const NumberRange token_penalty{.low = -kMaxTokenPenalty, .high = kMaxTokenPenalty};
  SamplingParams sampling;
  sampling.temperature = reader.Number("temperature", {.low = 0, .high = kMaxTemperature})
                             .value_or(defaults.temperature.value_or(1.0F));
  sampling.top_p = reader.Number("top_p", {.low = 0, .high = 1, .above_low = true})
                       .value_or(defaults.top_p.value_or(1.0F));
  // vLLM's -1 is our 0: all tokens.
  const std::optional<int64_t> top_k = reader.Integer("top_k", -1, kMaxInt32);
  sampling.top_k = top_k ? std::max(static_cast<int32_t>(*top_k), 0) : defaults.top_k.value_or(0);
  sampling.min_p =
      reader.Number("min_p", {.low = 0, .high = 1}).value_or(defaults.min_p.value_or(0.0F));
  sampling.repetition_penalty =
      reader
          .Number("repetition_penalty",
                  {.low = 0, .high = kMaxRepetitionPenalty, .above_low = true})
          .value_or(defaults.repetition_penalty.value_or(1.0F));
  sampling.frequency_penalty = reader.Number("frequency_penalty", token_penalty).value_or(0.0F);
  sampling.presence_penalty = reader.Number("presence_penalty", token_penalty).value_or(0.0F);
  sampling.min_tokens =
      static_cast<int32_t>(reader.Integer("min_tokens", 0, kMaxInt32).value_or(0));
  sampling.logit_bias = ReadLogitBias(model, reader);
  sampling.logprobs = ReadLogprobs(kind, reader);
  const std::optional<int64_t> own_seed = reader.Integer(
      "seed", std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
  sampling.seed = own_seed ? static_cast<uint64_t>(*own_seed) : seed;
  if (const Status status = ValidateSampling(sampling); !status.ok()) {
    reader.Fail({.message = status.message()});
  }
  return sampling;
}

std::optional<int32_t> ReadMaxTokens(ApiKind kind, ParameterReader& reader) {
  std::optional<int64_t> tokens = reader.Integer("max_tokens", 1, kMaxInt32);
  if (kind == ApiKind::kChat) {
    const auto newer = reader.Integer("max_completion_tokens", 1, kMaxInt32);
    if (tokens && newer && *tokens != *newer) {
      reader.Fail("max_completion_tokens",
                  fmt::format("'max_completion_tokens' is {} and 'max_tokens', its older name, {}",
                              *newer, *tokens));
    }
    if (newer) tokens = newer;
  }
  return tokens ? std::optional(static_cast<int32_t>(*tokens)) : std::nullopt;
}

void ReadStream(CompletionCall& call, ParameterReader& reader) {
  call.stream = reader.Bool("stream").value_or(false);
  const Json* value = reader.Find("stream_options");
  if (value == nullptr) return;
  if (!call.stream) reader.Fail("stream_options", "'stream_options' needs 'stream': true");
  if (!value->is_object()) {
    return reader.Fail("stream_options", fmt::format("'stream_options' is {}: it must be an object",
                                                     JsonKind(*value)));
  }
  constexpr std::array<std::string_view, 2> kOptions = {"include_usage", "continuous_usage_stats"};
  ParameterReader options(*value);
  options.RefuseOthers(kOptions);
  call.include_usage = options.Bool(kOptions[0]).value_or(false);
  call.continuous_usage = options.Bool(kOptions[1]).value_or(false);
  if (!options.ok()) {
    reader.Fail("stream_options", "'stream_options': " + options.error()->message,
                options.error()->code);
  }
}

/// {"type": "text"}, which is how it is anyway, or nothing.
void ReadResponseFormat(ParameterReader& reader) {
  const Json* format = reader.Find("response_format");
  if (format == nullptr) return;
  const auto type = format->is_object() ? format->find("type") : format->end();
  if (type != format->end() && *type == "text" && format->size() == 1) return;
  reader.Fail("response_format",
              "'response_format' must be {\"type\": \"text\"}: output bound to "
              "JSON or a schema is not supported",
              "unsupported_parameter");
}

/// Whether the model may call tools.
bool ReadToolChoice(bool has_tools, ParameterReader& reader) {
  const Json* choice = reader.Find("tool_choice");
  if (choice == nullptr) return has_tools;
  if (*choice == "none") return false;
  if (!(*choice == "auto")) {
    reader.Fail("tool_choice",
                "'tool_choice' must be \"auto\" or \"none\": the model cannot be "
                "made to call a tool",
                "unsupported_parameter");
  } else if (!has_tools) {
    reader.Fail("tool_choice", "'tool_choice' needs 'tools'");
  }
  return has_tools;
}

void ReadChatPrompt(const ApiModel& model, CompletionCall& call, ParameterReader& reader) {
  ReadResponseFormat(reader);
  call.parallel_tool_calls = reader.Bool("parallel_tool_calls").value_or(true);
  ChatInput input = ReadChatInput(model, reader);
  call.tools = ReadToolChoice(!input.tools.empty(), reader);
  if (!call.tools) input.tools.clear();
  if (!reader.ok()) return;
  std::optional<ChatPrompt> prompt = RenderChat(model, input, reader);
  if (prompt) call.prompts.push_back({.tokens = std::move(prompt->tokens)});
}

void ReadTextPrompts(const ApiModel& model, CompletionCall& call, ParameterReader& reader) {
  call.echo = reader.Bool("echo").value_or(false);
  const bool add_special = reader.Bool("add_special_tokens").value_or(true);
  if (call.echo) call.settings.sampling.prompt_logprobs = call.settings.sampling.logprobs;
  if (!reader.ok()) return;
  call.prompts = ReadPrompts(model, add_special, reader);
  for (CallPrompt& prompt : call.prompts) {
    if (!call.echo) {
      prompt.text = std::string();  // It may be large, and would stay as long as the answer takes.
    } else if (prompt.text.empty()) {
      prompt.text = model.tokenizer().Decode(prompt.tokens, ControlTokens::kShow);
    }
  }
}

/// Gives a prompt its budget; refuses what does not fit.
void FitBudget(const ApiModel& model, const CompletionCall& call, CallPrompt& prompt,
               ParameterReader& reader) {
  const std::string_view name = call.kind == ApiKind::kChat ? "messages" : "prompt";
  const auto length = static_cast<int64_t>(prompt.tokens.size());
  if (length == 0) {
    return reader.Fail(name, fmt::format("'{}' has no tokens: at least one is needed", name));
  }
  const int64_t rest = model.options().max_model_len - length;
  const int64_t room = std::min(rest, model.PoolBudget(length, call.settings.samples));
  const int64_t silent =
      call.kind == ApiKind::kChat ? room : std::min<int64_t>(room, kDefaultCompletionTokens);
  const int64_t budget = call.max_tokens ? *call.max_tokens : std::max<int64_t>(silent, 1);
  if (budget > rest) {
    reader.Fail(name,
                fmt::format("This model's maximum context length is {} tokens. However, you "
                            "requested {} tokens ({} in the prompt, {} for the completion). Please "
                            "reduce the length of the prompt or of the completion.",
                            model.options().max_model_len, length + budget, length, budget),
                "context_length_exceeded");
  } else if (budget > room) {
    reader.Fail(
        name,
        fmt::format("This server's cache holds {} tokens. However, you requested {} tokens "
                    "({} in the prompt, {} for the completion) in {} choices. Please reduce "
                    "one of them.",
                    int64_t{model.options().num_pages} * model.options().page_size, length + budget,
                    length, budget, call.settings.samples),
        "context_length_exceeded");
  } else if (call.settings.sampling.min_tokens > budget) {
    reader.Fail("min_tokens", fmt::format("'min_tokens' is {}: the completion has {} at most",
                                          call.settings.sampling.min_tokens, budget));
  } else {
    prompt.max_new_tokens = static_cast<int32_t>(budget);
  }
}

}  // namespace

std::span<const std::string_view> ParameterNames(ApiKind kind) {
  if (kind == ApiKind::kChat) return kChatParameters;
  return kCompletionParameters;
}

CompletionCall ReadCompletionCall(ApiKind kind, const ApiModel& model, uint64_t seed,
                                  ParameterReader& reader) {
  CompletionCall call;
  call.kind = kind;
  reader.RefuseOthers(ParameterNames(kind), kFixedFlags);
  call.model = ReadModel(model, reader);
  reader.String("user");
  call.max_tokens = ReadMaxTokens(kind, reader);
  const int32_t most_samples = std::min(kMaxSamples, model.options().rows);
  call.settings.samples = static_cast<int32_t>(reader.Integer("n", 1, most_samples).value_or(1));
  call.settings.sampling = ReadSampling(kind, model, seed, reader);
  call.settings.stop_strings = ReadStops(reader);
  call.settings.ignore_end_of_text = reader.Bool("ignore_eos").value_or(false);
  ReadStream(call, reader);
  // The costly part comes last.
  if (!reader.ok()) return call;
  if (kind == ApiKind::kChat) {
    ReadChatPrompt(model, call, reader);
  } else {
    ReadTextPrompts(model, call, reader);
  }
  for (CallPrompt& prompt : call.prompts) FitBudget(model, call, prompt, reader);
  return call;
}

}  // namespace decant
