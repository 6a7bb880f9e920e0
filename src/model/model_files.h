#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/model_config.h"
#include "model/model_location.h"
#include "weights/gguf.h"
#include "weights/tensor_source.h"

namespace decant {

/// How the model's makers would have it generate, where they say so. Values are finite numbers;
/// whether they make sense is for the sampler to say.
struct GenerationDefaults {
  std::vector<int32_t> eos;  ///< End-of-text ids, in the vocabulary; maybe none.
  std::optional<bool> do_sample{};
  std::optional<float> temperature{};
  std::optional<float> top_p{};
  std::optional<float> min_p{};
  std::optional<int32_t> top_k{};
  std::optional<float> repetition_penalty{};
};

/// A model's files, opened and checked: what computing needs, and what text needs as raw text.
struct ModelFiles {
  ModelLocation location;
  std::shared_ptr<const TensorSource> tensors;
  ModelConfig config;  ///< Its stop tokens are those of `generation`.
  GenerationDefaults generation;

  /// The same object as `tensors` where the model is a GGUF file, whose metadata hold the
  /// tokenizer; else null.
  std::shared_ptr<const GgufFile> gguf;

  std::optional<std::string> chat_template;  ///< Jinja, if the model has one.
  std::string chat_template_source;          ///< The file, and the key in it, for errors.

  /// Of a Hugging Face folder: the path of one of its files, such as "tokenizer.json", and whether
  /// it is there.
  std::string PathOf(std::string_view file) const;
  bool HasFile(std::string_view file) const;

  /// The whole text of one of them, at most kMaxTextBytes.
  static constexpr size_t kMaxTextBytes = size_t{64} << 20;
  Expected<std::string> ReadText(std::string_view file) const;
};

/// Opens the model that LocateModel finds. Everything that the files say is checked against each
/// other before anything is loaded: description, names, shapes and types of all tensors. Errors
/// name the file, the key or tensor, and the fault; kUnimplemented for what decant does not
/// compute.
Expected<ModelFiles> OpenModelFiles(const std::string& model);

/// The tensors alone, of files that need not be a model that decant can serve.
Expected<std::shared_ptr<const TensorSource>> OpenTensors(const ModelLocation& location);

}  // namespace decant
