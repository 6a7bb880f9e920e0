#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/command.h"
#include "apps/engine_flags.h"
#include "apps/make_ops.h"
#include "base/jsonl_writer.h"
#include "base/progress.h"
#include "base/run_header.h"
#include "bench/gates/engine_gate.h"
#include "bench/gates/invariance_gate.h"
#include "bench/gates/kernel_gate.h"
#include "bench/gates/page_gates.h"
#include "bench/gates/reference_gate.h"
#include "bench/gates/same_pages_gate.h"
#include "engine/preset.h"

namespace decant {
namespace {

struct GateFlags {
  EngineFlags engine{};
  std::string out = "gates.jsonl";
  uint64_t seed = 0;
  // kernel
  bool quick = false;
  std::vector<std::string> kernels{};
  std::vector<int32_t> head_dims{};
  std::vector<int32_t> groups{};
  std::vector<int32_t> page_sizes{};
  std::vector<int32_t> lengths{};
  std::vector<int32_t> batches{};
  // engine, poison, same-pages
  std::string against = "fused";
  std::string workload{};
  int32_t requests = 32;
  double scale = 1;
  std::optional<double> near_tie{};
  std::optional<int32_t> max_flip_sites{};
  // reference
  std::string golden{};
  int32_t max_prompt_tokens = 0;
};

Expected<GateWorkload> FindWorkload(const GateFlags& flags, std::string_view name) {
  constexpr int32_t kUniformPrompt = 256;
  constexpr int32_t kUniformBudget = 128;
  GateWorkload workload{.name = std::string(name), .options = {}, .requests = flags.requests};
  if (name == "uniform") {
    workload.options.prompt_lengths = {kUniformPrompt};
    workload.options.min_budget = workload.options.max_budget = kUniformBudget;
  } else if (name != "mixed") {
    return InvalidArgument("--workload is '{}'; allowed: mixed, uniform", name);
  }
  workload.options.seed = flags.seed;
  workload.options.scale = flags.scale;
  if (flags.scale != 1) workload.name += fmt::format(" scale {}", flags.scale);
  return workload;
}

Expected<GateReport> KernelGate(const GateFlags& flags) {
  KernelGateOptions options = flags.quick ? KernelGateOptions::Quick() : KernelGateOptions::Full();
  const auto choose = [](const std::vector<int32_t>& wanted, std::vector<int32_t>& values) {
    if (!wanted.empty()) values = wanted;
  };
  choose(flags.head_dims, options.head_dims);
  choose(flags.groups, options.groups);
  choose(flags.page_sizes, options.page_sizes);
  choose(flags.lengths, options.lengths);
  choose(flags.batches, options.batches);
  options.seed = flags.seed;
  DECANT_ASSIGN_OR_RETURN(const Device device, FindDevice(flags.engine.device));
  DECANT_ASSIGN_OR_RETURN(const ComputeType type, FindComputeType(flags.engine.dtype));
  DECANT_ASSIGN_OR_RETURN(options.kernels, FindDecodeKernels(flags.kernels, device));
  std::unique_ptr<Progress> progress;
  return RunKernelGate(MakeOpsFactory(device, type, flags.engine.threads), options,
                       [&progress](int32_t done, int32_t shapes) {
                         if (!progress) {
                           progress = std::make_unique<Progress>("gate kernel", shapes, "shapes");
                         }
                         if (done > 0) progress->Advance(1);
                       });
}

Expected<GateReport> EngineGate(const GateFlags& flags) {
  EngineGateOptions options;
  options.subject.name = flags.engine.preset;
  if (flags.engine.decode_kernel) options.subject.name += " with " + *flags.engine.decode_kernel;
  if (flags.engine.page_size) {
    options.subject.name += fmt::format(" and pages of {}", *flags.engine.page_size);
  }
  DECANT_ASSIGN_OR_RETURN(options.subject.options, ToEngineOptions(flags.engine));
  options.reference.name = flags.against;
  EngineFlags reference = flags.engine;
  reference.preset = flags.against;
  reference.decode_kernel.reset();
  reference.page_size.reset();
  auto reference_options = ToEngineOptions(reference);
  if (!reference_options.ok()) return reference_options.status().WithContext("--against");
  options.reference.options = std::move(reference_options).value();
  std::vector<std::string> names = {"mixed", "uniform"};
  if (!flags.workload.empty()) names = {flags.workload};
  for (const std::string& name : names) {
    DECANT_ASSIGN_OR_RETURN(GateWorkload workload, FindWorkload(flags, name));
    options.workloads.push_back(std::move(workload));
  }
  options.near_tie_gap = flags.near_tie;
  options.max_flip_sites = flags.max_flip_sites.value_or(options.max_flip_sites);
  return RunEngineGate(LoadWithProgress, options);
}

Expected<GateReport> WidePagesGate(const GateFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(EngineOptions options, ToEngineOptions(flags.engine));
  return RunWidePagesGate(LoadWithProgress, std::move(options));
}

/// The workload of the gates that take one.
Expected<GateWorkload> OneWorkload(const GateFlags& flags) {
  return FindWorkload(flags, flags.workload.empty() ? "mixed" : flags.workload);
}

Expected<GateReport> PoisonGate(const GateFlags& flags) {
  PoisonGateOptions options;
  DECANT_ASSIGN_OR_RETURN(options.engine, ToEngineOptions(flags.engine));
  if (flags.engine.decode_kernel) options.kernels = {options.engine.decode_kernel};
  DECANT_ASSIGN_OR_RETURN(options.workload, OneWorkload(flags));
  return RunPoisonGate(LoadWithProgress, options);
}

Expected<GateReport> InvarianceGate(const GateFlags& flags) {
  InvarianceGateOptions options;
  DECANT_ASSIGN_OR_RETURN(options.engine, ToEngineOptions(flags.engine));
  // On the CPU every kind is.
  if (!flags.engine.linear) options.engine.linear = LinearLayers::kInvariant;
  DECANT_ASSIGN_OR_RETURN(options.workload, OneWorkload(flags));
  return RunInvarianceGate(LoadWithProgress, options);
}

Expected<GateReport> SamePagesGate(const GateFlags& flags) {
  SamePagesGateOptions options;
  DECANT_ASSIGN_OR_RETURN(options.engine, ToEngineOptions(flags.engine));
  DECANT_ASSIGN_OR_RETURN(options.others, FindDecodeKernels(flags.kernels, options.engine.device));
  DECANT_ASSIGN_OR_RETURN(options.workload, OneWorkload(flags));
  return RunSamePagesGate(LoadWithProgress, options);
}

Expected<GateReport> ReferenceGate(const GateFlags& flags) {
  ReferenceGateOptions options;
  DECANT_ASSIGN_OR_RETURN(options.engine, ToEngineOptions(flags.engine));
  DECANT_ASSIGN_OR_RETURN(options.reference, ReadReferenceFile(flags.golden));
  options.file_name = std::filesystem::path(flags.golden).filename().string();
  options.max_prompt_tokens = flags.max_prompt_tokens;
  options.near_tie_gap = flags.near_tie;
  options.max_flip_sites = flags.max_flip_sites;
  return RunReferenceGate(LoadWithProgress, options);
}

using Gate = Expected<GateReport> (*)(const GateFlags& flags);

/// Runs a gate, shows what it found and adds the row. False: it failed.
Expected<bool> RunGate(Gate gate, const GateFlags& flags, const RunHeader& header) {
  DECANT_ASSIGN_OR_RETURN(const GateReport report, gate(flags));
  std::printf("%s", ToText(report).c_str());
  std::fflush(stdout);
  if (!flags.out.empty()) {
    DECANT_ASSIGN_OR_RETURN(JsonlWriter out, JsonlWriter::Open(flags.out, OutputMode::kAppend));
    DECANT_RETURN_IF_ERROR(out.Write(ToJson(report, header)));
    DECANT_RETURN_IF_ERROR(out.Close());
  }
  return report.passed();
}

Status RunGates(const std::vector<Gate>& gates, const GateFlags& flags,
                std::span<const char* const> command) {
  const RunHeader header = MakeRunHeader(command, flags.seed);
  int failed = 0;
  for (const Gate gate : gates) {
    if (gate == ReferenceGate && flags.golden.empty()) {
      std::printf("gate reference: not run, for want of --golden\n");
      continue;
    }
    DECANT_ASSIGN_OR_RETURN(const bool passed, RunGate(gate, flags, header));
    if (!passed) ++failed;
    if (gates.size() > 1) std::printf("\n");
  }
  if (failed == 0) return Status();
  return Error(StatusCode::kInternal, "{}",
               gates.size() == 1 ? "the gate failed" : fmt::format("{} gates failed", failed));
}

void AddCommonFlags(CLI::App& app, GateFlags& flags) {
  app.add_option("--seed", flags.seed, "Of everything that is drawn")
      ->capture_default_str()
      ->type_name("SEED");
  app.add_option("--out", flags.out,
                 "File that the result is added to as one line of JSON; '' for none")
      ->capture_default_str()
      ->type_name("FILE");
}

void AddKernelFlags(CLI::App& app, GateFlags& flags) {
  app.add_flag("--quick", flags.quick, "Few shapes, lengths up to 257: seconds instead of minutes");
  const auto list = [&app](const char* name, std::vector<int32_t>& values, const char* help) {
    app.add_option(name, values, help)->delimiter(',')->type_name("N,...");
  };
  list("--head-dims", flags.head_dims, "Head dims (default: 64,128)");
  list("--groups", flags.groups, "Query heads that share a KV head (default: 1 to 8, 16)");
  list("--page-sizes", flags.page_sizes, "Slots a page (default: 64,256)");
  list("--lengths", flags.lengths, "Context lengths (default: up to 8000 around powers of two)");
  list("--batches", flags.batches, "Rows of the mixed batches (default: 1,8,32,64)");
}

void AddKernelList(CLI::App& app, GateFlags& flags, const char* name, const char* help) {
  app.add_option(name, flags.kernels, help)->delimiter(',')->type_name("NAME,...");
}

void AddWorkloadFlags(CLI::App& app, GateFlags& flags, const char* workload_help) {
  app.add_option("--workload", flags.workload, workload_help)->type_name("NAME");
  app.add_option("--requests", flags.requests, "Requests of a workload")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 16))
      ->type_name("N");
  app.add_option("--scale", flags.scale,
                 "Multiply the workload's lengths and budgets: 0.05 for a small machine")
      ->capture_default_str()
      ->type_name("X");
}

void AddTieFlags(CLI::App& app, GateFlags& flags) {
  app.add_option("--near-tie", flags.near_tie,
                 "A flipped token passes where the reference's two best logits are less than this "
                 "apart (default: 0.02 in fp16 and fp32, 0.16 in bf16; docs/gates.md)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("GAP");
  app.add_option("--max-flip-sites", flags.max_flip_sites,
                 "How many distinct places may flip (default: 4)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
}

void AddAgainst(CLI::App& app, GateFlags& flags) {
  app.add_option("--against", flags.against, "The engine that is the reference")
      ->capture_default_str()
      ->type_name("NAME");
}

CLI::Option* AddGolden(CLI::App& app, GateFlags& flags) {
  app.add_option("--max-prompt-tokens", flags.max_prompt_tokens,
                 "Leave longer prompts out; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  return app
      .add_option("--golden", flags.golden,
                  "What transformers computed for this model: tests/data/golden/*.jsonl")
      ->type_name("FILE");
}

}  // namespace

std::vector<Command> AddGateCommands(CLI::App& parent, std::span<const char* const> command) {
  CLI::App& gate = *parent.add_subcommand("gate", "Check kernels and engines against each other");
  gate.require_subcommand(1);
  gate.footer(
      "Each gate prints what it compared, adds a row to gates.jsonl and ends with an error if it\n"
      "fails. docs/gates.md says what each compares, by which rule, and how to read a row.\n"
      "Example:\n"
      "  decant gate kernel --quick");
  std::vector<Command> commands;
  const auto add = [&](const char* name, const char* description, std::vector<Gate> gates,
                       const auto& add_flags, const char* footer) {
    CLI::App& app = *gate.add_subcommand(name, description);
    const auto flags = std::make_shared<GateFlags>();
    add_flags(app, *flags);
    AddCommonFlags(app, *flags);
    app.footer(footer);
    commands.push_back({.app = &app, .run = [flags, gates = std::move(gates), command] {
                          return RunGates(gates, *flags, command);
                        }});
  };

  add(
      "kernel", "Attention kernels against plain attention in fp32", {KernelGate},
      [](CLI::App& app, GateFlags& flags) {
        app.add_option("--device", flags.engine.device, "cpu, cuda, cuda:N, or auto")
            ->capture_default_str()
            ->type_name("DEVICE");
        app.add_option("--dtype", flags.engine.dtype, "On CUDA: fp16, bf16 or auto (fp16)")
            ->capture_default_str()
            ->type_name("TYPE");
        app.add_option("--threads", flags.engine.threads,
                       "Threads that compute; 0: one for each processor")
            ->capture_default_str()
            ->type_name("N");
        AddKernelFlags(app, flags);
        AddKernelList(app, flags, "--decode-kernel",
                      "Only these, which then must be there (default: every one there is)");
      },
      "Every decode kernel and the prompt kernel, on shuffled pages with everything unused "
      "poisoned.\n"
      "A row passes where its error is at most twice that of the same computation rounded to the\n"
      "storage type. No model is needed.\n"
      "Examples:\n"
      "  decant gate kernel --quick\n"
      "  decant gate kernel --decode-kernel split --lengths 1,4097 --groups 6 --page-sizes 16");
  add(
      "engine", "Two engines' greedy tokens for the same requests", {EngineGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kAll);
        AddAgainst(app, flags);
        AddWorkloadFlags(app, flags,
                         "mixed: prompts of 16 to 4096 tokens, budgets of 64 to 256; uniform: all "
                         "256 and 128 (default: both)");
        AddTieFlags(app, flags);
      },
      "Token for token. Where two kernels add the same numbers in another order, a flip passes if\n"
      "the reference's two best logits are almost equal there; each place counts once, few may "
      "be.\n"
      "--decode-kernel and --page-size change --engine, not --against: the control that separates\n"
      "pages from kernel.\n"
      "Examples:\n"
      "  decant gate engine --model M.gguf --engine decant --against fused --scale 0.05\n"
      "  decant gate engine --model M.gguf --engine decant --decode-kernel rows --against fused");
  add(
      "wide-pages", "Admission and the free list with pages of 256 slots", {WidePagesGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kWithoutSweeps);
        for (const char* own : {"--page-size", "--chunk-tokens"}) {
          app.remove_option(app.get_option(own));
        }
      },
      "A pool of seven pages: a request of 300 positions holds 512 slots, three such run, the "
      "fourth\n"
      "waits and all behind it too; at the end one request takes every page.\n"
      "Example:\n"
      "  decant gate wide-pages --model M.gguf");
  add(
      "poison", "Tokens with and without NaN in every freed page", {PoisonGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kAll);
        AddWorkloadFlags(app, flags, "mixed or uniform (default: mixed)");
      },
      "The same requests twice through a pool that holds a third of them, for every decode kernel\n"
      "or the one of --decode-kernel; freed pages filled with NaN must change no token.\n"
      "Example:\n"
      "  decant gate poison --model M.gguf --scale 0.05");
  add(
      "invariance", "Each request's logits alone and whatever else is served", {InvarianceGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kWithoutBatch);
        AddWorkloadFlags(app, flags, "mixed or uniform (default: mixed)");
        for (const char* own : {"--page-size", "--chunk-tokens", "--graphs"}) {
          app.remove_option(app.get_option(own));
        }
      },
      "First every request alone, then among others that come and go: 2 to 64 rows, chunks of 64 "
      "to\n"
      "2048, pages of 16 to 256, with graphs and without. Every bit of every logit must stay. "
      "Only\n"
      "split promises that, on CUDA with --linear invariant, which is this gate's default.\n"
      "Example:\n"
      "  decant gate invariance --model M.gguf --engine decant --scale 0.05");
  add(
      "same-pages", "Decode kernels side by side on a running engine's pages", {SamePagesGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kAll);
        AddKernelList(app, flags, "--beside",
                      "Kernels to compare with the serving one, which then must be there (default: "
                      "every other one there is)");
        AddWorkloadFlags(app, flags, "mixed or uniform (default: mixed)");
      },
      "The engine's own kernel serves; in every decode step and layer the others compute the same "
      "on\n"
      "the same pages. Their outputs may be four units in the last place apart.\n"
      "Example:\n"
      "  decant gate same-pages --model M.gguf --scale 0.05");
  add(
      "reference", "Greedy tokens against Hugging Face transformers", {ReferenceGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kAll);
        AddGolden(app, flags)->required();
        AddTieFlags(app, flags);
      },
      "The reference's tokens were computed in fp32 from the same dequantised weights. Where the "
      "file\n"
      "says how far transformers itself is from that in the engine's type, flips may be as wide.\n"
      "Example:\n"
      "  decant gate reference --model models/smollm2-135m-instruct-q4_1.gguf \\\n"
      "    --golden tests/data/golden/smollm2-135m.jsonl --max-prompt-tokens 300");
  add(
      "all", "Every gate in turn; with --golden the reference too",
      {KernelGate, EngineGate, WidePagesGate, PoisonGate, SamePagesGate, ReferenceGate},
      [](CLI::App& app, GateFlags& flags) {
        AddEngineFlags(app, flags.engine, EngineFlagSet::kWithoutBatch);
        AddAgainst(app, flags);
        AddWorkloadFlags(app, flags, "mixed or uniform (default: both for engine, else mixed)");
        AddTieFlags(app, flags);
        AddKernelFlags(app, flags);
        AddGolden(app, flags);
      },
      "Goes on behind a gate that fails, and ends with an error if one did.\n"
      "Example:\n"
      "  decant gate all --model M.gguf --quick --scale 0.05");
  return commands;
}

}  // namespace decant
