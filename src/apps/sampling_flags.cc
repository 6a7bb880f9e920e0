#include "apps/sampling_flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <utility>

namespace decant {
namespace {

/// "TOKEN=BIAS": a token's id and what is added to its logit.
Expected<TokenBias> ParseBias(const std::string& text) {
  TokenBias bias;
  const char* const end = text.data() + text.size();
  const auto [id_end, id_error] = std::from_chars(text.data(), end, bias.token);
  if (id_error == std::errc() && id_end != end && *id_end == '=') {
    const auto [bias_end, bias_error] = std::from_chars(id_end + 1, end, bias.bias);
    if (bias_error == std::errc() && bias_end == end) return bias;
  }
  return InvalidArgument("--logit-bias is '{}'; allowed: a token's id, =, a number (9707=-100)",
                         text);
}

}  // namespace

void AddSamplingFlags(CLI::App& app, SamplingFlags& flags) {
  app.add_option("--max-tokens", flags.max_tokens, "Tokens to generate at most")
      ->capture_default_str()
      ->type_name("N");
  app.add_option("--temperature", flags.temperature,
                 "0: always the likeliest token (default); else what logits are divided by")
      ->type_name("T");
  app.add_option("--top-k", flags.top_k, "Draw from the K likeliest tokens; 0: from all (default)")
      ->type_name("K");
  app.add_option("--top-p", flags.top_p,
                 "Draw from the likeliest tokens that together have probability P (default: 1)")
      ->type_name("P");
  app.add_option("--min-p", flags.min_p,
                 "Draw no token less likely than P times the likeliest one (default: 0)")
      ->type_name("P");
  app.add_option("--repetition-penalty", flags.repetition_penalty,
                 "Over 1: tokens that stand in the prompt or the text are less likely (default: 1)")
      ->type_name("X");
  app.add_option("--presence-penalty", flags.presence_penalty,
                 "Taken off the logit of every token generated before")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--frequency-penalty", flags.frequency_penalty, "Taken off it once for each time")
      ->capture_default_str()
      ->type_name("X");
  app.add_option("--logit-bias", flags.logit_bias,
                 "Adds BIAS (-100 to 100) to the logit of token TOKEN; may be given many times")
      ->type_name("TOKEN=BIAS")
      ->allow_extra_args(false);
  app.add_option("--min-tokens", flags.min_tokens, "No end of text before so many tokens")
      ->capture_default_str()
      ->type_name("N");
  app.add_flag("--ignore-eos", flags.ignore_eos, "Go on over end-of-text tokens");
  app.add_flag("--model-defaults", flags.model_defaults,
               "What is not given comes from the model's generation_config.json");
  app.add_option("--seed", flags.seed,
                 "Of the draws; a seed gives the same text whatever runs beside it")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--stop", flags.stops, "End before this text; may be given up to 16 times")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

Expected<GenerateRequest> ToRequest(const SamplingFlags& flags,
                                    const GenerationDefaults& defaults) {
  GenerateRequest request;
  request.max_new_tokens = flags.max_tokens;
  request.stop_strings = flags.stops;
  request.ignore_end_of_text = flags.ignore_eos;
  SamplingParams& sampling = request.sampling;
  if (flags.model_defaults) {
    // Without do_sample the other values do nothing, as in transformers.
    if (defaults.do_sample.value_or(false)) {
      sampling.temperature = defaults.temperature.value_or(1.0F);
      sampling.top_k = defaults.top_k.value_or(50);  // transformers' own default
      sampling.top_p = defaults.top_p.value_or(sampling.top_p);
      sampling.min_p = defaults.min_p.value_or(sampling.min_p);
    }
    sampling.repetition_penalty = defaults.repetition_penalty.value_or(sampling.repetition_penalty);
  }
  sampling.temperature = flags.temperature.value_or(sampling.temperature);
  sampling.top_k = flags.top_k.value_or(sampling.top_k);
  sampling.top_p = flags.top_p.value_or(sampling.top_p);
  sampling.min_p = flags.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = flags.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.presence_penalty = flags.presence_penalty;
  sampling.frequency_penalty = flags.frequency_penalty;
  sampling.min_tokens = flags.min_tokens;
  sampling.seed = flags.seed;
  if (!flags.logit_bias.empty()) {
    LogitBias biases;
    for (const std::string& text : flags.logit_bias) {
      DECANT_ASSIGN_OR_RETURN(const TokenBias bias, ParseBias(text));
      biases.push_back(bias);
    }
    sampling.logit_bias = std::make_shared<const LogitBias>(std::move(biases));
  }
  return request;
}

}  // namespace decant
