#pragma once

#include <string>

#include "base/status.h"

namespace decant {

enum class ModelFileKind {
  kGguf,         ///< one GGUF file
  kHuggingFace,  ///< a folder with config.json, safetensors and the tokenizer's files
};

/// Where a model lies on this machine.
struct ModelLocation {
  ModelFileKind kind = ModelFileKind::kGguf;
  std::string path;  ///< Of the file or the folder.
  std::string name;  ///< For people: the hub's name, or the last part of the path.
};

/// Finds what a person calls a model: a GGUF file; a Hugging Face folder, or a folder without
/// config.json that holds one GGUF file; or a hub name ("Qwen/Qwen2.5-0.5B-Instruct") in the local
/// Hugging Face cache, which HF_HUB_CACHE, HF_HOME or XDG_CACHE_HOME move as huggingface_hub lets
/// them. What exists as a path is taken as one. Nothing is downloaded.
///
/// Errors: kNotFound, saying what was looked at and how to download the model; kInvalidArgument for
/// a folder that holds no model, or several.
Expected<ModelLocation> LocateModel(const std::string& model);

}  // namespace decant
