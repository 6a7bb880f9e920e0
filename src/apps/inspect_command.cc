#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "apps/command.h"
#include "bench/text_table.h"
#include "engine/model_text.h"
#include "model/model_files.h"
#include "weights/gguf.h"

namespace decant {
namespace {

struct InspectFlags {
  std::string model{};
  bool tensors = false;
  bool metadata = false;
};

std::string Size(int64_t bytes) {
  constexpr double kMiB = 1 << 20;
  constexpr double kGiB = 1 << 30;
  const auto value = static_cast<double>(bytes);
  return value < kGiB ? fmt::format("{:.1f} MiB", value / kMiB)
                      : fmt::format("{:.2f} GiB", value / kGiB);
}

std::string Shape(const TensorInfo& tensor) {
  std::string text;
  for (auto dim = tensor.dims.rbegin(); dim != tensor.dims.rend(); ++dim) {
    text += (text.empty() ? "" : " x ") + std::to_string(*dim);
  }
  return text;
}

std::string DescribeConfig(const ModelConfig& config) {
  const DecoderShape& shape = config.shape;
  const std::string features = fmt::format("{}{}", config.qkv_bias ? ", with QKV bias" : "",
                                           config.qk_norm ? ", q and k normed" : "");
  const RopeKind kind = config.rope_scaling.kind;
  const std::string scaling =
      kind == RopeKind::kNone ? "" : fmt::format(", scaled ({})", RopeKindName(kind));
  return fmt::format(
      "model       {} ({})\n"
      "layers      {}, hidden {}, MLP {}\n"
      "attention   {} heads of {}, {} for K and V{}\n"
      "positions   {} at most, RoPE base {}{}\n"
      "vocabulary  {} tokens, head {}\n",
      config.name, config.family, shape.layers, shape.hidden, shape.intermediate, shape.heads,
      shape.head_dim, shape.kv_heads, features, shape.max_positions, config.rope_base, scaling,
      shape.vocab, config.tied_head ? "tied to the embedding" : "of its own");
}

std::string DescribeTokenizer(const Tokenizer& tokenizer) {
  int32_t control = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
    control += tokenizer.is_control(id) ? 1 : 0;
  std::string ends;
  for (const int32_t id : tokenizer.eos()) {
    ends += fmt::format("{}{} ({})", ends.empty() ? "" : ", ", id, tokenizer.TokenBytes(id));
  }
  return fmt::format(
      "tokenizer   byte-level BPE, pre-tokenizer {}, {} control tokens, end of text {}{}\n",
      tokenizer.pre_tokenizer() == PreTokenizer::kQwen2 ? "qwen2" : "smollm", control,
      ends.empty() ? "none" : ends, tokenizer.add_bos() ? ", prompts begin with bos" : "");
}

std::string DescribeTypes(const TensorSource& source) {
  struct Sum {
    int64_t tensors = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  std::map<std::string_view, Sum> sums;
  Sum total;
  for (const TensorInfo& tensor : source.tensors()) {
    for (Sum* sum : {&sums[GgmlTypeName(tensor.type)], &total}) {
      ++sum->tensors;
      sum->elements += tensor.elements();
      sum->bytes += static_cast<int64_t>(tensor.data.size());
    }
  }
  TextTable table({"tensors by type", "tensors", "parameters", "bytes", "bits each"});
  const auto add = [&](std::string_view name, const Sum& sum) {
    const double bits = 8.0 * static_cast<double>(sum.bytes) / static_cast<double>(sum.elements);
    table.AddRow({std::string(name), std::to_string(sum.tensors), std::to_string(sum.elements),
                  std::to_string(sum.bytes), fmt::format("{:.2f}", bits)});
  };
  for (const auto& [name, sum] : sums) add(name, sum);
  if (total.tensors > 0) add("all", total);
  return table.ToString();
}

std::string DescribeMemory(const TensorSource& source, const ModelConfig& config) {
  int64_t parameters = 0;
  int64_t quantised_bytes = 0;
  for (const TensorInfo& tensor : source.tensors()) {
    parameters += tensor.elements();
    if (TraitsOf(tensor.type).block_elements > 1) {
      quantised_bytes += static_cast<int64_t>(tensor.data.size());
    }
  }
  const int64_t per_token = config.KvBytesPerToken(2);
  TextTable table({"memory needed", "bytes"});
  table.AddRow({"weights in bf16", Size(2 * parameters)});
  table.AddRow({"weights in fp32, where the processor lacks bf16", Size(4 * parameters)});
  if (quantised_bytes > 0) {
    table.AddRow(
        {"quantised weights beside them, or alone (--linear int8), about", Size(quantised_bytes)});
  }
  table.AddRow(
      {"K and V of one token", fmt::format("{:.1f} KiB", static_cast<double>(per_token) / 1024)});
  table.AddRow(
      {"K and V of one request at full length", Size(per_token * config.shape.max_positions)});
  table.AddRow({"K and V of 32 requests of 1,024 tokens", Size(per_token * 32 * 1024)});
  return table.ToString();
}

std::string ListTensors(const TensorSource& source) {
  TextTable table({"tensor", "type", "shape", "bytes"});
  for (const TensorInfo& tensor : source.tensors()) {
    table.AddRow({tensor.name, std::string(GgmlTypeName(tensor.type)), Shape(tensor),
                  std::to_string(tensor.data.size())});
  }
  return table.ToString();
}

std::string ListMetadata(const GgufFile& file) {
  std::string text;
  for (const GgufEntry& entry : file.metadata().entries()) {
    text += fmt::format("{} = {}\n", entry.key, DescribeValue(entry));
  }
  return text;
}

std::string DescribeFiles(const ModelLocation& location, const TensorSource& source) {
  const std::string size = Size(source.data_bytes());
  if (const auto* gguf = dynamic_cast<const GgufFile*>(&source); gguf != nullptr) {
    return fmt::format("file        {} (GGUF version {}, {} of tensors)\n", location.path,
                       gguf->version(), size);
  }
  return fmt::format("folder      {} (safetensors, {} of tensors)\n", location.path, size);
}

Status Inspect(const InspectFlags& flags) {
  DECANT_ASSIGN_OR_RETURN(const ModelLocation location, LocateModel(flags.model));
  DECANT_ASSIGN_OR_RETURN(const std::shared_ptr<const TensorSource> source, OpenTensors(location));
  std::string text = DescribeFiles(location, *source);
  // Files that cannot be served can still be looked at.
  const Expected<ModelFiles> files = OpenModelFiles(flags.model);
  if (files.ok()) {
    text += DescribeConfig(files->config);
    const Expected<Tokenizer> tokenizer = LoadTokenizer(*files);
    text += tokenizer.ok()
                ? DescribeTokenizer(*tokenizer)
                : fmt::format("tokenizer   cannot be used: {}\n", tokenizer.status().message());
  } else {
    text += fmt::format("model       cannot be served: {}\n", files.status().message());
  }
  text += "\n" + DescribeTypes(*source);
  if (files.ok()) text += "\n" + DescribeMemory(*source, files->config);
  if (flags.tensors) text += "\n" + ListTensors(*source);
  if (flags.metadata) {
    const auto* gguf = dynamic_cast<const GgufFile*>(source.get());
    if (gguf == nullptr) {
      return InvalidArgument("--metadata: only GGUF files hold keys and values; see {}/config.json",
                             location.path);
    }
    text += "\n" + ListMetadata(*gguf);
  }
  std::fputs(text.c_str(), stdout);
  return Status();
}

}  // namespace

Command AddInspectCommand(CLI::App& parent) {
  CLI::App& app =
      *parent.add_subcommand("inspect", "Show what a model's files hold and what they need");
  const auto flags = std::make_shared<InspectFlags>();
  app.add_option("MODEL", flags->model,
                 "A GGUF file, a Hugging Face folder, or a hub name in the local cache")
      ->required()
      ->type_name("");
  app.add_flag("--tensors", flags->tensors, "List every tensor too");
  app.add_flag("--metadata", flags->metadata, "List the file's own keys and values too");
  app.footer(
      "Examples:\n"
      "  decant inspect M.gguf\n"
      "  decant inspect --tensors M.gguf | grep blk.0");
  return {.app = &app, .run = [flags] { return Inspect(*flags); }};
}

}  // namespace decant
