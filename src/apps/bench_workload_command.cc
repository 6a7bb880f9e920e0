#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "apps/command.h"
#include "apps/workload_flags.h"
#include "base/jsonl_writer.h"
#include "base/run_header.h"
#include "bench/arrivals.h"
#include "bench/prompt_alphabet.h"
#include "engine/model_text.h"
#include "model/model_files.h"
#include "model/random_model.h"

namespace decant {
namespace {

constexpr double kMostRate = 1e6;  // requests a second

struct WorkloadCommandFlags {
  WorkloadFlags workload{};
  std::string model{};
  std::string shape{};
  int32_t requests = 32;
  std::optional<double> rate{};
  std::string out{};
};

/// What another engine needs to compute a model of the same shape, under Hugging Face's names.
JsonObject ShapeJson(const ModelConfig& config) {
  const DecoderShape& shape = config.shape;
  return JsonObject()
      .Add("model_type", config.family)
      .Add("num_hidden_layers", shape.layers)
      .Add("hidden_size", shape.hidden)
      .Add("num_attention_heads", shape.heads)
      .Add("num_key_value_heads", shape.kv_heads)
      .Add("head_dim", shape.head_dim)
      .Add("intermediate_size", shape.intermediate)
      .Add("vocab_size", shape.vocab)
      .Add("max_position_embeddings", shape.max_positions)
      .Add("rms_norm_eps", double{shape.norm_epsilon})
      .Add("rope_theta", double{config.rope_base})
      .Add("tie_word_embeddings", config.tied_head);
}

struct Source {
  ModelConfig config{};
  std::vector<Token> alphabet{};
};

Expected<Source> OpenSource(const WorkloadCommandFlags& flags) {
  if (flags.model.empty() == flags.shape.empty()) {
    return InvalidArgument("give one of --model and --shape: whose tokens prompts are made of");
  }
  if (!flags.shape.empty()) {
    DECANT_ASSIGN_OR_RETURN(ModelConfig config, FindShape(flags.shape));
    DECANT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, ByteTokenizer());
    return Source{.config = std::move(config), .alphabet = PromptAlphabet(tokenizer)};
  }
  DECANT_ASSIGN_OR_RETURN(ModelFiles files, OpenModelFiles(flags.model));
  DECANT_ASSIGN_OR_RETURN(const Tokenizer tokenizer, LoadTokenizer(files));
  return Source{.config = std::move(files.config), .alphabet = PromptAlphabet(tokenizer)};
}

JsonObject RequestJson(const WorkItem& item, double arrival) {
  JsonArray prompt;
  for (const Token token : item.prompt) prompt.Add(token);
  return JsonObject().Add("arrival_s", arrival).Add("budget", item.budget).Add("prompt", prompt);
}

Status WriteWorkload(const WorkloadCommandFlags& flags, std::span<const char* const> command) {
  if (flags.rate && !(*flags.rate > 0 && *flags.rate <= kMostRate)) {
    return InvalidArgument("--rate is {}; allowed: above 0, at most {}", *flags.rate, kMostRate);
  }
  DECANT_ASSIGN_OR_RETURN(const NamedWorkload named, ReadWorkload(flags.workload));
  DECANT_ASSIGN_OR_RETURN(const Source source, OpenSource(flags));
  Traffic traffic{.workload =
                      MakeWorkload(named.name, named.options, flags.requests, source.alphabet)};
  if (flags.rate) {
    traffic = PoissonTraffic(std::move(traffic.workload), named.options.seed, *flags.rate);
  } else {
    traffic.arrivals.resize(traffic.workload.items.size());
  }
  DECANT_ASSIGN_OR_RETURN(JsonlWriter file, JsonlWriter::Open(flags.out, OutputMode::kReplace));
  DECANT_RETURN_IF_ERROR(file.Write(ToJson(MakeRunHeader(command, named.options.seed))));
  DECANT_RETURN_IF_ERROR(file.Write(JsonObject().Add("shape", ShapeJson(source.config))));
  for (size_t i = 0; i < traffic.workload.items.size(); ++i) {
    DECANT_RETURN_IF_ERROR(file.Write(
        JsonObject().Add("request", RequestJson(traffic.workload.items[i], traffic.arrivals[i]))));
  }
  DECANT_RETURN_IF_ERROR(file.Close());
  std::printf("%s: %zu requests of %s, %lld prompt tokens, %lld to generate\n", flags.out.c_str(),
              traffic.workload.items.size(), named.name.c_str(),
              static_cast<long long>(traffic.workload.prompt_tokens()),
              static_cast<long long>(traffic.workload.budget_tokens()));
  return Status();
}

}  // namespace

Command AddBenchWorkloadCommand(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& app = *parent.add_subcommand(
      "workload", "Write a benchmark's requests to a file, for other engines; runs nothing");
  const auto flags = std::make_shared<WorkloadCommandFlags>();
  AddWorkloadFlags(app, flags->workload);
  app.add_option("--model", flags->model, "Whose tokens prompts are made of, as of a bench")
      ->type_name("MODEL");
  app.add_option("--shape", flags->shape,
                 fmt::format("Instead of --model: as a bench with --random-weights in a shape: {}",
                             fmt::join(ShapeNames(), ", ")))
      ->type_name("NAME");
  app.add_option("--requests", flags->requests,
                 "How many: the --batch-size of bench closed, the --requests of bench arrivals")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--rate", flags->rate,
                 "Requests a second, as of bench arrivals (default: all at time zero, as bench "
                 "closed)")
      ->type_name("R");
  app.add_option("--out", flags->out, "The file, replaced: JSON lines")
      ->required()
      ->type_name("FILE");
  app.footer(
      "Examples:\n"
      "  decant bench workload --shape qwen2.5-1.5b --out closed.jsonl\n"
      "  decant bench workload --model M.gguf --requests 400 --rate 24 --out arrivals.jsonl\n"
      "Lines: {\"header\": ...}, {\"shape\": ...} (Hugging Face's names), then for each request\n"
      "{\"request\": {\"arrival_s\": 0.0, \"budget\": 128, \"prompt\": [ids]}}, in order of "
      "arrival.\n"
      "scripts/compare-vllm hands them to vLLM.");
  return {.app = &app, .run = [flags, command] { return WriteWorkload(*flags, command); }};
}

}  // namespace decant
