#include "engine/model_text.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "text/byte_symbols.h"
#include "text/gguf_vocabulary.h"
#include "text/tokenizer_json.h"
#include "text/utf8.h"
#include "weights/json_metadata.h"
#include "weights/mapped_file.h"

namespace decant {
namespace {

constexpr const char* kTokenizerJson = "tokenizer.json";
constexpr const char* kTokenizerConfig = "tokenizer_config.json";

Expected<std::optional<int32_t>> OptionalId(const GgufMetadata& metadata, std::string_view key) {
  if (!metadata.Has(key)) return std::optional<int32_t>();
  DECANT_ASSIGN_OR_RETURN(const int32_t id, metadata.GetI32(key));
  return std::optional<int32_t>(id);
}

Expected<std::optional<bool>> OptionalBool(const GgufMetadata& metadata, std::string_view key) {
  if (!metadata.Has(key)) return std::optional<bool>();
  DECANT_ASSIGN_OR_RETURN(const bool value, metadata.GetBoolOr(key, false));
  return std::optional<bool>(value);
}

Expected<GgufVocabulary> ReadVocabulary(const GgufMetadata& metadata) {
  GgufVocabulary vocabulary;
  DECANT_ASSIGN_OR_RETURN(const std::string_view model, metadata.GetString("tokenizer.ggml.model"));
  vocabulary.model = model;
  if (metadata.Has("tokenizer.ggml.pre")) {
    DECANT_ASSIGN_OR_RETURN(const std::string_view pre, metadata.GetString("tokenizer.ggml.pre"));
    vocabulary.pre = std::string(pre);
  }
  DECANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens,
                          metadata.GetStringArray("tokenizer.ggml.tokens"));
  vocabulary.tokens.assign(tokens.begin(), tokens.end());
  if (metadata.Has("tokenizer.ggml.token_type")) {
    DECANT_ASSIGN_OR_RETURN(vocabulary.types, metadata.GetI32Array("tokenizer.ggml.token_type"));
  }
  if (metadata.Has("tokenizer.ggml.merges")) {
    DECANT_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges,
                            metadata.GetStringArray("tokenizer.ggml.merges"));
    vocabulary.merges.assign(merges.begin(), merges.end());
  }
  if (metadata.Has("tokenizer.ggml.scores")) {
    DECANT_ASSIGN_OR_RETURN(vocabulary.scores, metadata.GetF32Array("tokenizer.ggml.scores"));
  }
  DECANT_ASSIGN_OR_RETURN(vocabulary.bos, OptionalId(metadata, "tokenizer.ggml.bos_token_id"));
  DECANT_ASSIGN_OR_RETURN(vocabulary.eos, OptionalId(metadata, "tokenizer.ggml.eos_token_id"));
  DECANT_ASSIGN_OR_RETURN(vocabulary.unknown,
                          OptionalId(metadata, "tokenizer.ggml.unknown_token_id"));
  DECANT_ASSIGN_OR_RETURN(vocabulary.add_bos,
                          OptionalBool(metadata, "tokenizer.ggml.add_bos_token"));
  DECANT_ASSIGN_OR_RETURN(vocabulary.add_eos,
                          OptionalBool(metadata, "tokenizer.ggml.add_eos_token"));
  DECANT_ASSIGN_OR_RETURN(vocabulary.add_space_prefix,
                          OptionalBool(metadata, "tokenizer.ggml.add_space_prefix"));
  return vocabulary;
}

Expected<Tokenizer> TokenizerOfGguf(const GgufFile& file) {
  const auto make = [&]() -> Expected<Tokenizer> {
    DECANT_ASSIGN_OR_RETURN(GgufVocabulary vocabulary, ReadVocabulary(file.metadata()));
    DECANT_ASSIGN_OR_RETURN(TokenizerData data, MakeGgufTokenizerData(std::move(vocabulary)));
    Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(data));
    if (!tokenizer.ok()) return tokenizer.status().WithContext(file.path());
    return tokenizer;
  };
  return make();
}

/// `eos`: what the model's own files say ends a text, which tokenizer.json does not.
Expected<Tokenizer> TokenizerOfJson(const std::string& path, std::vector<int32_t> eos) {
  DECANT_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(mapped.bytes().data()), mapped.size());
  DECANT_ASSIGN_OR_RETURN(TokenizerData data, ReadTokenizerJson(text, path));
  data.eos = std::move(eos);
  Expected<Tokenizer> tokenizer = Tokenizer::Create(std::move(data));
  if (!tokenizer.ok()) return tokenizer.status().WithContext(path);
  return tokenizer;
}

/// The text of a special token: a string, or an object with its "content". Nothing where the file
/// names none.
Expected<std::optional<std::string>> SpecialToken(const JsonMetadata& json, std::string_view key) {
  if (!json.Has(key)) return std::optional<std::string>();
  if (json.IsString(key)) {
    DECANT_ASSIGN_OR_RETURN(std::string text, json.GetString(key));
    return std::optional<std::string>(std::move(text));
  }
  DECANT_ASSIGN_OR_RETURN(const JsonMetadata token, json.GetObject(key));
  DECANT_ASSIGN_OR_RETURN(std::string text, token.GetString("content"));
  return std::optional<std::string>(std::move(text));
}

Expected<ChatTemplateOptions> TemplateOptions(const ModelFiles& files, const Tokenizer& tokenizer) {
  ChatTemplateOptions options;
  if (files.gguf != nullptr) {
    if (tokenizer.bos()) {
      options.special_tokens.emplace_back("bos_token", tokenizer.Spelling(*tokenizer.bos()));
    }
    if (!tokenizer.eos().empty()) {
      options.special_tokens.emplace_back("eos_token", tokenizer.Spelling(tokenizer.eos().front()));
    }
    return options;
  }
  if (!files.HasFile(kTokenizerConfig)) return options;
  DECANT_ASSIGN_OR_RETURN(const JsonMetadata json,
                          JsonMetadata::Open(files.PathOf(kTokenizerConfig)));
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
                          "cls_token", "mask_token"}) {
    DECANT_ASSIGN_OR_RETURN(std::optional<std::string> text, SpecialToken(json, key));
    if (text) options.special_tokens.emplace_back(key, *std::move(text));
  }
  return options;
}

}  // namespace

Expected<Tokenizer> LoadTokenizer(const ModelFiles& files) {
  if (files.gguf != nullptr) return TokenizerOfGguf(*files.gguf);
  if (!files.HasFile(kTokenizerJson)) {
    return Error(StatusCode::kNotFound,
                 "{} is missing (tokenizer.model alone is not read: transformers writes "
                 "tokenizer.json when it saves a fast tokenizer)",
                 files.PathOf(kTokenizerJson));
  }
  return TokenizerOfJson(files.PathOf(kTokenizerJson), files.generation.eos);
}

Expected<Tokenizer> LoadTokenizer(const std::string& model) {
  const std::filesystem::path path(model);
  std::error_code error;
  if (path.filename() == kTokenizerJson) return TokenizerOfJson(model, {});
  if (std::filesystem::exists(path / kTokenizerJson, error)) {
    return TokenizerOfJson((path / kTokenizerJson).string(), {});
  }
  DECANT_ASSIGN_OR_RETURN(const ModelLocation location, LocateModel(model));
  if (location.kind == ModelFileKind::kHuggingFace) {
    return TokenizerOfJson(location.path + "/" + kTokenizerJson, {});
  }
  DECANT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(location.path));
  return TokenizerOfGguf(file);
}

Expected<Tokenizer> ByteTokenizer() {
  GgufVocabulary vocabulary;
  vocabulary.model = "gpt2";
  for (int byte = 0; byte < 256; ++byte) {
    AppendUtf8(SymbolOfByte(static_cast<uint8_t>(byte)), vocabulary.tokens.emplace_back());
  }
  DECANT_ASSIGN_OR_RETURN(TokenizerData data, MakeGgufTokenizerData(std::move(vocabulary)));
  return Tokenizer::Create(std::move(data));
}

Expected<ChatPrompter> LoadChatPrompter(const ModelFiles& files,
                                        std::shared_ptr<const Tokenizer> tokenizer,
                                        const std::string& template_override) {
  if (template_override.empty() && !files.chat_template) {
    return Error(StatusCode::kFailedPrecondition,
                 "{} has no chat template, so that it cannot chat; --chat-template gives one",
                 files.location.name);
  }
  DECANT_ASSIGN_OR_RETURN(ChatTemplateOptions options, TemplateOptions(files, *tokenizer));
  Expected<ChatPrompter> prompter =
      ChatPrompter::Create(template_override.empty() ? *files.chat_template : template_override,
                           std::move(options), std::move(tokenizer));
  if (!prompter.ok() && template_override.empty()) {
    return prompter.status().WithContext(files.chat_template_source);
  }
  return prompter;
}

}  // namespace decant
