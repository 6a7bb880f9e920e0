#include "model/model_files.h"

#include <filesystem>
#include <utility>

#include "model/decoder_tensors.h"
#include "weights/json_metadata.h"
#include "weights/mapped_file.h"
#include "weights/safetensors.h"

namespace decant {
namespace {

constexpr const char* kTemplateKey = "chat_template";
constexpr const char* kGgufTemplateKey = "tokenizer.chat_template";

Expected<std::optional<float>> OptionalF32(const JsonMetadata& json, std::string_view key) {
  if (!json.Has(key)) return std::optional<float>();
  DECANT_ASSIGN_OR_RETURN(const double value, json.GetF64(key));
  return std::optional<float>(static_cast<float>(value));
}

/// What generation_config.json says, and config.json where it does not say which tokens end a text.
Status ReadGeneration(const JsonMetadata& config_json, ModelFiles& files) {
  constexpr const char* kEosKey = "eos_token_id";
  GenerationDefaults& generation = files.generation;
  std::optional<JsonMetadata> json;
  if (files.HasFile("generation_config.json")) {
    DECANT_ASSIGN_OR_RETURN(json, JsonMetadata::Open(files.PathOf("generation_config.json")));
    DECANT_ASSIGN_OR_RETURN(generation.temperature, OptionalF32(*json, "temperature"));
    DECANT_ASSIGN_OR_RETURN(generation.top_p, OptionalF32(*json, "top_p"));
    DECANT_ASSIGN_OR_RETURN(generation.min_p, OptionalF32(*json, "min_p"));
    DECANT_ASSIGN_OR_RETURN(generation.repetition_penalty,
                            OptionalF32(*json, "repetition_penalty"));
    if (json->Has("top_k")) {
      DECANT_ASSIGN_OR_RETURN(generation.top_k, json->GetI32("top_k"));
    }
    if (json->Has("do_sample")) {
      DECANT_ASSIGN_OR_RETURN(generation.do_sample, json->GetBoolOr("do_sample", false));
    }
  }
  const JsonMetadata& eos_json = json && json->Has(kEosKey) ? *json : config_json;
  DECANT_ASSIGN_OR_RETURN(generation.eos, eos_json.GetI32List(kEosKey));
  for (const int32_t id : generation.eos) {
    DECANT_RETURN_IF_ERROR(
        internal::CheckTokenId(eos_json.source(), kEosKey, id, files.config.shape.vocab));
  }
  return {};
}

/// chat_template.jinja; else the string in tokenizer_config.json, or the one called "default" in a
/// list of them.
Status ReadTemplate(ModelFiles& files) {
  if (files.HasFile("chat_template.jinja")) {
    DECANT_ASSIGN_OR_RETURN(files.chat_template, files.ReadText("chat_template.jinja"));
    files.chat_template_source = files.PathOf("chat_template.jinja");
    return {};
  }
  if (!files.HasFile("tokenizer_config.json")) return {};
  DECANT_ASSIGN_OR_RETURN(const JsonMetadata json,
                          JsonMetadata::Open(files.PathOf("tokenizer_config.json")));
  if (!json.Has(kTemplateKey)) return {};
  files.chat_template_source = json.source() + ": " + json.KeyName(kTemplateKey);
  if (json.IsString(kTemplateKey)) {
    DECANT_ASSIGN_OR_RETURN(files.chat_template, json.GetString(kTemplateKey));
    return {};
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<JsonMetadata> templates,
                          json.GetObjectList(kTemplateKey));
  for (const JsonMetadata& entry : templates) {
    DECANT_ASSIGN_OR_RETURN(const std::string name, entry.GetString("name"));
    DECANT_ASSIGN_OR_RETURN(std::string text, entry.GetString("template"));
    if (name == "default") files.chat_template = std::move(text);
  }
  return {};
}

Expected<ModelFiles> OpenFolder(const ModelLocation& location) {
  ModelFiles files;
  files.location = location;
  DECANT_ASSIGN_OR_RETURN(const JsonMetadata json, JsonMetadata::Open(files.PathOf("config.json")));
  DECANT_ASSIGN_OR_RETURN(files.config, ReadModelConfig(json));
  files.config.name = location.name;
  DECANT_ASSIGN_OR_RETURN(files.tensors, OpenTensors(location));
  DECANT_RETURN_IF_ERROR(CheckDecoderTensors(*files.tensors, files.config));
  DECANT_RETURN_IF_ERROR(ReadGeneration(json, files));
  files.config.stop_tokens = files.generation.eos;
  DECANT_RETURN_IF_ERROR(ReadTemplate(files));
  return files;
}

Expected<ModelFiles> OpenGguf(const ModelLocation& location) {
  ModelFiles files;
  files.location = location;
  DECANT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(location.path));
  files.gguf = std::make_shared<const GgufFile>(std::move(file));
  files.tensors = files.gguf;
  DECANT_ASSIGN_OR_RETURN(files.config, ReadModelConfig(*files.gguf));
  DECANT_RETURN_IF_ERROR(CheckDecoderTensors(*files.tensors, files.config));
  files.generation.eos = files.config.stop_tokens;
  if (files.gguf->metadata().Has(kGgufTemplateKey)) {
    DECANT_ASSIGN_OR_RETURN(files.chat_template,
                            files.gguf->metadata().GetString(kGgufTemplateKey));
    files.chat_template_source = location.path + ": " + kGgufTemplateKey;
  }
  return files;
}

}  // namespace

std::string ModelFiles::PathOf(std::string_view file) const {
  return fmt::format("{}/{}", location.path, file);
}

bool ModelFiles::HasFile(std::string_view file) const {
  std::error_code error;
  return std::filesystem::exists(PathOf(file), error);
}

Expected<std::string> ModelFiles::ReadText(std::string_view file) const {
  DECANT_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(PathOf(file)));
  if (mapped.size() > kMaxTextBytes) {
    return DataLoss("{}: {} bytes; at most {} are read", mapped.path(), mapped.size(),
                    kMaxTextBytes);
  }
  return std::string(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.size());
}

Expected<ModelFiles> OpenModelFiles(const std::string& model) {
  DECANT_ASSIGN_OR_RETURN(const ModelLocation location, LocateModel(model));
  return location.kind == ModelFileKind::kGguf ? OpenGguf(location) : OpenFolder(location);
}

Expected<std::shared_ptr<const TensorSource>> OpenTensors(const ModelLocation& location) {
  if (location.kind == ModelFileKind::kGguf) {
    DECANT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(location.path));
    return std::shared_ptr<const TensorSource>(std::make_shared<GgufFile>(std::move(file)));
  }
  DECANT_ASSIGN_OR_RETURN(SafetensorsFiles files, SafetensorsFiles::Open(location.path));
  return std::shared_ptr<const TensorSource>(std::make_shared<SafetensorsFiles>(std::move(files)));
}

}  // namespace decant
