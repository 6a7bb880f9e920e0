#include "model/model_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/testing/sanitized.h"
#include "base/testing/temporary_folder.h"
#include "model/testing/tiny_model.h"

namespace decant {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFamilyData = DECANT_TEST_DATA "/family";

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void WriteFile(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// Sets a variable of the environment while it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name); old != nullptr) old_ = old;
    setenv(name, value.c_str(), 1);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() {
    if (old_) {
      setenv(name_, old_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

class ModelFilesTest : public ::testing::Test {
 protected:
  /// A folder of its own with the files of a stored model.
  fs::path CopyOf(const std::string& model) const {
    fs::path folder = root_ / model;
    fs::remove_all(folder);
    fs::copy(fs::path(kFamilyData) / model, folder);
    return folder;
  }

  static void EditJson(const fs::path& path, const std::function<void(json&)>& edit) {
    json document = json::parse(ReadFile(path));
    edit(document);
    WriteFile(path, document.dump());
  }

  /// Rewrites the header of a safetensors file around the same data.
  static void EditHeader(const fs::path& path, const std::function<void(json&)>& edit) {
    const std::string bytes = ReadFile(path);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    json header = json::parse(bytes.substr(sizeof(length), length));
    edit(header);
    const std::string text = header.dump();
    const uint64_t new_length = text.size();
    const std::string out(reinterpret_cast<const char*>(&new_length), sizeof(new_length));
    WriteFile(path, out + text + bytes.substr(sizeof(length) + length));
  }

  /// Why the model is refused, in the time and memory that any refusal may take.
  static std::string Refusal(const std::string& model) {
    rusage before = {};
    getrusage(RUSAGE_SELF, &before);
    const std::clock_t start = std::clock();
    const Status status = OpenModelFiles(model).status();
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kSanitized ? 20 : 1);
    rusage after = {};
    getrusage(RUSAGE_SELF, &after);
    EXPECT_LT(after.ru_maxrss - before.ru_maxrss, 200 << 10);
    return status.ok() ? "accepted" : status.message();
  }

  static void ExpectRefusal(const std::string& model, std::string_view message) {
    const std::string refusal = Refusal(model);
    EXPECT_NE(refusal.find(message), std::string::npos) << refusal << "\n  lacks " << message;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(ModelFilesTest, FindsHubNamesInTheCache) {
  const fs::path snapshots = root_ / "hub/models--Org--Tiny-1/snapshots";
  fs::create_directories(snapshots);
  fs::copy(CopyOf("qwen2-bf16"), snapshots / "abc123");
  for (const auto& [variable, value] :
       {std::pair{"HF_HUB_CACHE", root_ / "hub"}, std::pair{"HF_HOME", root_}}) {
    const ScopedVariable scoped(variable, value);
    const Expected<ModelFiles> files = OpenModelFiles("Org/Tiny-1");
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_EQ(files->config.name, "Org/Tiny-1");
    EXPECT_EQ(files->location.path, (snapshots / "abc123").string());
  }
  const ScopedVariable hub("HF_HUB_CACHE", root_ / "hub");
  fs::copy(snapshots / "abc123", snapshots / "def456");
  ExpectRefusal("Org/Tiny-1", "2 snapshots and no refs/main");
  const fs::path reference = root_ / "hub/models--Org--Tiny-1/refs/main";
  WriteFile(reference, "def456\n");
  EXPECT_EQ(LocateModel("Org/Tiny-1").value().path, (snapshots / "def456").string());
  WriteFile(reference, "../../elsewhere");
  ExpectRefusal("Org/Tiny-1", "refs/main: it does not hold the name of a snapshot");
  WriteFile(reference, "fff");
  ExpectRefusal("Org/Tiny-1", "it names the snapshot fff, which is not in");
  ExpectRefusal("Org/Other",
                "Org/Other: no such file or folder, and not in the Hugging Face cache (" +
                    (root_ / "hub/models--Org--Other").string() +
                    "); to download it: 'hf download Org/Other'");
  ExpectRefusal("HuggingFaceTB/SmolLM2-135M-Instruct", "'scripts/fetch-model smollm2-135m'");
}

TEST_F(ModelFilesTest, HubNamesStayInTheCache) {
  // Folders that a name would find if it were taken as it is.
  for (const char* folder :
       {"models--..--Tiny", "models--Org--..", "models--..", "models--.--.."}) {
    const fs::path snapshots = root_ / "hub" / folder / "snapshots";
    fs::create_directories(snapshots);
    fs::copy(CopyOf("qwen2-bf16"), snapshots / "abc123");
  }
  fs::create_directories(root_ / "Tiny");
  const ScopedVariable hub("HF_HUB_CACHE", root_ / "hub");
  for (const char* name : {"../Tiny-that-is-not-there", "Org/../Org", "Org/..", "./..",
                           "Org/.hidden", "Org/a/../../b", "..%2fTiny", "Org/Tiny\n"}) {
    const Expected<ModelLocation> location = LocateModel(name);
    EXPECT_FALSE(location.ok()) << name << " is " << location->path;
  }
}

TEST_F(ModelFilesTest, FindsGgufFiles) {
  const fs::path file = root_ / "gguf/tiny.gguf";
  fs::create_directories(file.parent_path());
  testing::BuildTinyModel({}).Set("tokenizer.chat_template", "{{ messages }}").WriteTo(file);
  for (const fs::path& model : {file, file.parent_path()}) {
    const Expected<ModelFiles> files = OpenModelFiles(model);
    ASSERT_TRUE(files.ok()) << files.status().ToString();
    EXPECT_EQ(files->gguf.get(), files->tensors.get());
    EXPECT_EQ(files->chat_template, "{{ messages }}");
    EXPECT_EQ(files->chat_template_source, file.string() + ": tokenizer.chat_template");
    EXPECT_EQ(files->generation.eos, (std::vector<int32_t>{279}));
  }
  testing::BuildTinyModel({}).WriteTo(root_ / "gguf/other.gguf");
  ExpectRefusal(file.parent_path(), "several GGUF files; name one of them: other.gguf, tiny.gguf");
}

TEST_F(ModelFilesTest, SaysWhatAPathIsNot) {
  ExpectRefusal("", "the model's name is empty");
  ExpectRefusal((root_ / "none.gguf").string(), "none.gguf: no such file or folder; to download");
  fs::create_directories(root_ / "empty");
  ExpectRefusal(root_ / "empty", "neither a config.json (with safetensors) nor a GGUF file");
  const fs::path folder = CopyOf("qwen2-bf16");
  ExpectRefusal(folder / "model.safetensors", "a Hugging Face model is named by its folder");
  WriteFile(root_ / "text.gguf", "hello, I am no model");
  ExpectRefusal(root_ / "text.gguf", "text.gguf: ");
  fs::remove(folder / "model.safetensors");
  ExpectRefusal(folder, "neither model.safetensors nor model.safetensors.index.json");
}

TEST_F(ModelFilesTest, TakesTheTemplateByPrecedence) {
  const fs::path folder = CopyOf("qwen2-bf16");
  EXPECT_FALSE(OpenModelFiles(folder).value().chat_template.has_value());
  const fs::path config = folder / "tokenizer_config.json";
  WriteFile(config, R"({"chat_template":"one"})");
  EXPECT_EQ(OpenModelFiles(folder).value().chat_template, "one");
  WriteFile(config, R"({"chat_template":[{"name":"tool_use","template":"two"},)"
                    R"({"name":"default","template":"three"}]})");
  EXPECT_EQ(OpenModelFiles(folder).value().chat_template, "three");
  EXPECT_EQ(OpenModelFiles(folder).value().chat_template_source,
            config.string() + ": chat_template");
  WriteFile(folder / "chat_template.jinja", "four");
  EXPECT_EQ(OpenModelFiles(folder).value().chat_template, "four");
  fs::remove(folder / "chat_template.jinja");
  for (const auto& [text, message] :
       {std::pair{R"({"chat_template":7})", "chat_template is 7, not a list of objects"},
        std::pair{R"({"chat_template":[{"name":"default"}]})", "no key chat_template[0].template"},
        std::pair{"{", "tokenizer_config.json: not valid JSON"}}) {
    WriteFile(config, text);
    ExpectRefusal(folder, message);
  }
}

TEST_F(ModelFilesTest, GivesTextAndGenerationDefaults) {
  const fs::path folder = CopyOf("qwen2-bf16");
  WriteFile(folder / "tokenizer.json", "{}");
  WriteFile(folder / "generation_config.json",
            R"({"eos_token_id":[5,6],"do_sample":true,"temperature":0.7,"top_p":0.8,"top_k":20,)"
            R"("repetition_penalty":1.05,"min_p":null})");
  const ModelFiles files = OpenModelFiles(folder).value();
  EXPECT_TRUE(files.HasFile("tokenizer.json"));
  EXPECT_EQ(files.ReadText("tokenizer.json").value(), "{}");
  EXPECT_FALSE(files.ReadText("absent.json").ok());
  EXPECT_EQ(files.generation.eos, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(files.config.stop_tokens, files.generation.eos);
  EXPECT_EQ(files.generation.do_sample, true);
  EXPECT_EQ(files.generation.temperature, 0.7F);
  EXPECT_EQ(files.generation.top_p, 0.8F);
  EXPECT_EQ(files.generation.top_k, 20);
  EXPECT_EQ(files.generation.repetition_penalty, 1.05F);
  EXPECT_FALSE(files.generation.min_p.has_value());
  WriteFile(folder / "generation_config.json", "{}");
  EXPECT_EQ(OpenModelFiles(folder).value().generation.eos, (std::vector<int32_t>{2}));
  for (const auto& [text, message] :
       {std::pair{R"({"eos_token_id":64})", "generation_config.json: eos_token_id is 64; 0 to 63"},
        std::pair{R"({"eos_token_id":"2"})", "eos_token_id is \"2\", not a 32-bit integer"},
        std::pair{R"({"temperature":"hot"})", "temperature is \"hot\", not a finite number"},
        std::pair{R"({"top_k":1e99})", "top_k is 1e+99, not a 32-bit integer"}}) {
    WriteFile(folder / "generation_config.json", text);
    ExpectRefusal(folder, message);
  }
}

/// A key of config.json, the JSON put there (empty: the key goes), and what the refusal says.
struct ConfigCase {
  const char* model;
  const char* key;
  const char* value;
  const char* message;
};

constexpr ConfigCase kConfigCases[] = {
    {"qwen2-bf16", "model_type", R"("mamba")", "model_type is \"mamba\", which is not supported"},
    {"qwen2-bf16", "model_type", "", "no key model_type"},
    {"qwen2-bf16", "model_type", "7", "model_type is 7, not a string"},
    {"qwen2-bf16", "architectures", R"(["Qwen2ForRewardModel"])", "architectures is [\"Qwen2ForRe"},
    {"qwen2-bf16", "architectures", R"([3])", "architectures is [3], not a list of strings"},
    {"qwen2-bf16", "num_hidden_layers", "0", "num_hidden_layers is 0; 1 to 1024"},
    {"qwen2-bf16", "num_hidden_layers", "3", "no tensor 'model.layers.2.input_layernorm.weight'"},
    {"qwen2-bf16", "num_hidden_layers", "1", "model.layers.1."},
    {"qwen2-bf16", "num_hidden_layers", "99999999999", "num_hidden_layers is 99999999999, not"},
    {"qwen2-bf16", "num_hidden_layers", "2.5", "num_hidden_layers is 2.5, not a 32-bit integer"},
    {"qwen2-bf16", "hidden_size", "-48", "hidden_size is -48"},
    {"qwen2-bf16", "hidden_size", "64", "model.embed_tokens.weight is [48, 64]; the model's"},
    {"qwen2-bf16", "hidden_size", "", "no key hidden_size"},
    {"qwen2-bf16", "num_attention_heads", "0", "num_attention_heads is 0"},
    {"qwen2-bf16", "num_attention_heads", "4", "model.layers.0.self_attn.q_proj.weight is"},
    {"qwen2-bf16", "num_key_value_heads", "3", "num_key_value_heads is 3; 1 to 2"},
    {"qwen2-bf16", "num_key_value_heads", "", "no key num_key_value_heads"},
    {"qwen2-bf16", "intermediate_size", "2147483647", "intermediate_size is 2147483647; 32 to"},
    {"qwen2-bf16", "intermediate_size", "96", "model.layers.0.mlp.gate_proj.weight is [48, 64]"},
    {"qwen2-bf16", "max_position_embeddings", "1000000000",
     "max_position_embeddings is 1000000000"},
    {"qwen2-bf16", "vocab_size", "65", "model.embed_tokens.weight is [48, 64]"},
    {"qwen2-bf16", "vocab_size", "0", "vocab_size is 0"},
    {"qwen2-bf16", "head_dim", "33", "head_dim is 33; a multiple of 32"},
    {"qwen2-bf16", "head_dim", "512", "head_dim is 512; 32 to 256"},
    {"qwen2-bf16", "rms_norm_eps", "0", "rms_norm_eps is 0"},
    {"qwen2-bf16", "rms_norm_eps", R"("small")", "rms_norm_eps is \"small\", not a finite number"},
    {"qwen2-bf16", "hidden_act", R"("gelu")", "hidden_act is \"gelu\""},
    {"qwen2-bf16", "quantization_config", R"({"quant_method":"gptq"})", "quantization_config is {"},
    {"qwen2-bf16", "use_sliding_window", "true", "accepted"},  // sliding_window is null
    {"qwen2-bf16", "use_sliding_window", R"("yes")", "use_sliding_window is \"yes\", not true or"},
    {"qwen2-bf16", "layer_types", R"(["full_attention","sliding_attention"])", "layer_types is ["},
    {"qwen2-bf16", "num_experts", "8", "num_experts is 8"},
    {"qwen2-bf16", "tie_word_embeddings", "1", "tie_word_embeddings is 1, not true or false"},
    {"qwen2-bf16", "eos_token_id", "-1", "accepted"},  // generation_config.json says better
    {"qwen2-bf16", "rope_parameters", "3", "rope_parameters is 3, not an object"},
    {"qwen2-bf16", "rope_parameters", R"({"rope_type":"dynamic","factor":2})",
     "rope_parameters.rope_type is \"dynamic\""},
    {"qwen2-bf16", "rope_parameters", R"({"rope_type":"default","rope_theta":0})",
     "rope_theta is 0"},
    {"qwen2-bf16", "rope_parameters", R"({"full_attention":{"rope_type":"default"}})",
     "rope_parameters.full_attention is {"},
    {"qwen2-bf16", "rope_parameters", R"({"rope_type":"default","partial_rotary_factor":0.5})",
     "rope_parameters.partial_rotary_factor is 0.5"},
    {"qwen2-bf16", "partial_rotary_factor", "0.25", "partial_rotary_factor is 0.25"},
    {"qwen2-bf16", "rope_scaling", R"({"type":"longrope","short_factor":[1]})",
     "rope_scaling.type is \"longrope\""},
    {"qwen2-bf16", "rope_scaling", R"({"type":"linear"})", "no key rope_scaling.factor"},
    {"qwen2-bf16", "rope_scaling", R"({"type":"linear","factor":-4})",
     "rope_scaling: factor is -4; 1 to 1000000"},
    {"qwen2-bf16", "rope_scaling", R"({"rope_type":"llama3","factor":8,"low_freq_factor":1})",
     "no key rope_scaling.high_freq_factor"},
    {"qwen2-bf16", "rope_scaling",
     R"({"rope_type":"yarn","factor":4,"original_max_position_embeddings":0})",
     "rope_scaling: original_max_position_embeddings is 0"},
    {"qwen3-fp16", "head_dim", "", "no key head_dim"},
    {"qwen3-fp16", "head_dim", "32", "model.layers.0.self_attn.q_proj.weight is"},
    {"qwen3-fp16", "model_type", R"("llama")", "architectures is [\"Qwen3ForCausalLM\"]"},
    {"qwen3-fp16", "attention_bias", "true", "no tensor 'model.layers.0.self_attn.q_proj.bias'"},
    {"qwen3-fp16", "tie_word_embeddings", "false", "no tensor 'lm_head.weight'"},
    {"llama-yarn-bf16", "mlp_bias", "true", "mlp_bias is true"},
    {"mistral-yarn-bf16", "sliding_window", "64", "sliding_window is 64, fewer than the 128"},
    {"mistral-yarn-bf16", "sliding_window", "", "sliding_window is 4096 where it is not given"},
    {"mistral-yarn-bf16", "sliding_window", "128", "accepted"},
};

class BadConfigTest : public ModelFilesTest, public ::testing::WithParamInterface<ConfigCase> {};

TEST_P(BadConfigTest, IsRefusedNamingFileAndKey) {
  const ConfigCase& test = GetParam();
  const fs::path folder = CopyOf(test.model);
  ASSERT_EQ(Refusal(folder), "accepted");
  const bool longer = std::string_view(test.message).find("4096") != std::string_view::npos;
  EditJson(folder / "config.json", [&](json& config) {
    if (longer) config["max_position_embeddings"] = 8192;
    if (*test.value == '\0') {
      config.erase(test.key);
    } else {
      config[test.key] = json::parse(test.value);
    }
  });
  const std::string refusal = Refusal(folder);
  EXPECT_NE(refusal.find(test.message), std::string::npos) << refusal;
  EXPECT_TRUE(refusal == "accepted" || refusal.find(folder.string()) != std::string::npos)
      << refusal;
}

INSTANTIATE_TEST_SUITE_P(Cases, BadConfigTest, ::testing::ValuesIn(kConfigCases),
                         [](const auto& test) {
                           return fmt::format("{}_{}", test.index, test.param.key);
                         });

TEST_F(ModelFilesTest, WindowsOfQwenAreRefusedWhereTheyHidePositions) {
  const auto with = [&](int32_t window, int32_t first) {
    const fs::path folder = CopyOf("qwen2-bf16");
    EditJson(folder / "config.json", [&](json& config) {
      config.erase("layer_types");
      config["use_sliding_window"] = true;
      config["sliding_window"] = window;
      config["max_window_layers"] = first;
    });
    return Refusal(folder);
  };
  EXPECT_NE(with(64, 1).find("use_sliding_window is true"), std::string::npos);
  EXPECT_EQ(with(64, 2), "accepted");
  EXPECT_EQ(with(128, 0), "accepted");
}

TEST_F(ModelFilesTest, TensorsMustFitTheDescription) {
  static constexpr const char* kNorm = "model.layers.1.input_layernorm.weight";
  const std::tuple<const char*, std::function<void(json&)>, const char*> kCases[] = {
      {"missing",
       [](json& header) {
         header["other"] = header[kNorm];
         header.erase(kNorm);
       },
       "no tensor 'model.layers.1.input_layernorm.weight'"},
      {"integers", [](json& header) { header[kNorm]["dtype"] = "I16"; },
       "model.layers.1.input_layernorm.weight is I16, which is not supported"},
      {"eight bits", [](json& header) { header[kNorm]["dtype"] = "F8_E5M2"; },
       "model.layers.1.input_layernorm.weight: its dtype is F8_E5M2"},
      {"too long a type", [](json& header) { header[kNorm]["dtype"] = "F32"; },
       "model.layers.1.input_layernorm.weight: its shape takes 192 bytes"},
      {"transposed",
       [](json& header) {
         header["model.layers.0.mlp.down_proj.weight"]["shape"] = {64, 48};
       },
       "model.layers.0.mlp.down_proj.weight is [48, 64]; the model's description needs [64, 48]"},
      {"rank",
       [](json& header) {
         header[kNorm]["shape"] = {48, 1};
       },
       "model.layers.1.input_layernorm.weight is [1, 48]; the model's description needs [48]"}};
  for (const auto& [name, edit, message] : kCases) {
    const fs::path folder = CopyOf("qwen2-bf16");
    EditHeader(folder / "model.safetensors", edit);
    ExpectRefusal(folder, message);
  }
}

TEST_F(ModelFilesTest, TensorsWithoutAPlaceAreRefused) {
  // Qwen2's biases in a model that says it is a llama without any.
  const fs::path folder = CopyOf("qwen2-bf16");
  EditJson(folder / "config.json", [](json& config) {
    config["model_type"] = "llama";
    config["architectures"] = {"LlamaForCausalLM"};
  });
  ExpectRefusal(folder, ".bias has no place in a llama model of 2 layers");
  // With them it is one that decant computes; with an output bias it is not.
  EditJson(folder / "config.json", [](json& config) { config["attention_bias"] = true; });
  EXPECT_EQ(Refusal(folder), "accepted");
  EditHeader(folder / "model.safetensors", [](json& header) {
    header["model.layers.0.self_attn.o_proj.bias"] = header["lm_head.weight"];
    header.erase("lm_head.weight");
  });
  EditJson(folder / "config.json", [](json& config) { config["tie_word_embeddings"] = true; });
  ExpectRefusal(folder, "model.layers.0.self_attn.o_proj.bias has no place in a llama model");
}

TEST_F(ModelFilesTest, CutFilesAreRefused) {
  const fs::path folder = CopyOf("llama-llama3-fp32");
  const fs::path shard = folder / "model-00002-of-00003.safetensors";
  fs::resize_file(shard, fs::file_size(shard) - 4);
  ExpectRefusal(folder, "model-00002-of-00003.safetensors: ");
  ExpectRefusal(folder, "reach past the end of the file");
  fs::remove(shard);
  ExpectRefusal(folder, "model-00002-of-00003.safetensors: cannot open");
  const std::string config = ReadFile(folder / "config.json");
  for (size_t size = 0; size + 2 < config.size(); size += 7) {
    WriteFile(folder / "config.json", config.substr(0, size));
    ExpectRefusal(folder, "config.json: not valid JSON");
  }
}

}  // namespace
}  // namespace decant
