#include "bench/token_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/narrow.h"
#include "bench/json_lines.h"
#include "bench/token_hash.h"

namespace decant {
namespace {

using nlohmann::json;

constexpr int64_t kMaxTokens = int64_t{1} << 26;  // of a request
constexpr int32_t kMaxVocab = 1 << 24;

JsonObject ToJson(const TokenRow& row) {
  JsonArray lengths;
  for (const int32_t length : row.run.options.prompt_lengths) lengths.Add(length);
  JsonArray tokens;
  for (const Token token : row.tokens) tokens.Add(token);
  return JsonObject()
      .Add("workload", row.run.workload)
      .Add("prompt_lengths", lengths)
      .Add("min_budget", row.run.options.min_budget)
      .Add("max_budget", row.run.options.max_budget)
      .Add("scale", row.run.options.scale)
      .Add("seed", row.run.options.seed)
      .Add("load", row.run.load)
      .Add("decode_kernel", row.run.decode_kernel)
      .Add("page_size", row.run.page_size)
      .Add("max_batch", row.run.max_batch)
      .Add("chunk_tokens", row.run.chunk_tokens)
      .Add("index", row.index)
      .Add("prompt_tokens", row.prompt_tokens)
      .Add("prompt_hash", fmt::format("{:016x}", row.prompt_hash))
      .Add("tokens", tokens);
}

Expected<int32_t> ReadCount(const json& object, std::string_view key, int64_t least) {
  DECANT_ASSIGN_OR_RETURN(const int64_t value,
                          ReadInteger(FindKey(object, key), key, least, kMaxTokens));
  return static_cast<int32_t>(value);
}

Expected<uint64_t> ReadHash(const json* value) {
  constexpr size_t kDigits = 16;
  constexpr int kHexadecimal = 16;
  DECANT_ASSIGN_OR_RETURN(const std::string text, ReadName(value, "prompt_hash"));
  uint64_t hash = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), hash, kHexadecimal);
  if (text.size() != kDigits || error != std::errc() || end != text.data() + text.size()) {
    return DataLoss("'prompt_hash' is not {} hexadecimal digits", kDigits);
  }
  return hash;
}

Expected<WorkloadOptions> ReadOptions(const json& object) {
  WorkloadOptions options;
  options.prompt_lengths.clear();
  const json* lengths = FindKey(object, "prompt_lengths");
  if (lengths == nullptr || !lengths->is_array()) {
    return DataLoss("'prompt_lengths' is not a list of numbers");
  }
  for (const json& length : *lengths) {
    DECANT_ASSIGN_OR_RETURN(const int64_t value,
                            ReadInteger(&length, "prompt_lengths", 1, kMaxTokens));
    options.prompt_lengths.push_back(static_cast<int32_t>(value));
  }
  DECANT_ASSIGN_OR_RETURN(options.min_budget, ReadCount(object, "min_budget", 1));
  DECANT_ASSIGN_OR_RETURN(options.max_budget, ReadCount(object, "max_budget", 1));
  const json* scale = FindKey(object, "scale");
  if (scale == nullptr || !scale->is_number()) return DataLoss("'scale' is not a number");
  options.scale = scale->get<double>();
  const json* seed = FindKey(object, "seed");
  if (seed == nullptr || !seed->is_number_unsigned()) {
    return DataLoss("'seed' is not a whole number of 0 or more");
  }
  options.seed = seed->get<uint64_t>();
  if (const Status status = ValidateWorkloadOptions(options); !status.ok()) {
    return DataLoss("{}", status.message());
  }
  return options;
}

Expected<TokenRow> ReadRow(const json& object) {
  TokenRow row;
  TokenRun& run = row.run;
  DECANT_ASSIGN_OR_RETURN(run.workload, ReadName(FindKey(object, "workload"), "workload"));
  DECANT_ASSIGN_OR_RETURN(run.options, ReadOptions(object));
  DECANT_ASSIGN_OR_RETURN(run.load, ReadName(FindKey(object, "load"), "load"));
  DECANT_ASSIGN_OR_RETURN(run.decode_kernel,
                          ReadName(FindKey(object, "decode_kernel"), "decode_kernel"));
  DECANT_ASSIGN_OR_RETURN(run.page_size, ReadCount(object, "page_size", 1));
  DECANT_ASSIGN_OR_RETURN(run.max_batch, ReadCount(object, "max_batch", 1));
  DECANT_ASSIGN_OR_RETURN(run.chunk_tokens, ReadCount(object, "chunk_tokens", 1));
  DECANT_ASSIGN_OR_RETURN(row.index, ReadCount(object, "index", 0));
  DECANT_ASSIGN_OR_RETURN(row.prompt_tokens, ReadCount(object, "prompt_tokens", 1));
  DECANT_ASSIGN_OR_RETURN(row.prompt_hash, ReadHash(FindKey(object, "prompt_hash")));
  DECANT_ASSIGN_OR_RETURN(row.tokens, ReadTokens(FindKey(object, "tokens"), "tokens", kMaxVocab));
  return row;
}

}  // namespace

std::string TokenRun::Settings() const {
  return fmt::format("{}, pages of {}, {} rows, chunks of {}", decode_kernel, page_size, max_batch,
                     chunk_tokens);
}

Expected<TokenFile> TokenFile::Open(const std::filesystem::path& folder, const RunHeader& header) {
  DECANT_ASSIGN_OR_RETURN(JsonlWriter jsonl,
                          JsonlWriter::Open(folder / kName, OutputMode::kAppend));
  DECANT_RETURN_IF_ERROR(jsonl.Write(decant::ToJson(header)));
  return TokenFile(std::move(jsonl));
}

Status TokenFile::Add(const TokenRun& run, int32_t index, std::span<const Token> prompt,
                      std::span<const Token> tokens) {
  const TokenRow row{.run = run,
                     .index = index,
                     .prompt_tokens = Narrow<int32_t>(prompt.size()),
                     .prompt_hash = HashTokens(0, prompt),
                     .tokens = {tokens.begin(), tokens.end()}};
  return jsonl_.Write(JsonObject().Add("request", ToJson(row)));
}

Expected<std::vector<TokenRow>> ReadTokenRows(const std::filesystem::path& path) {
  const std::filesystem::path file =
      std::filesystem::is_directory(path) ? path / TokenFile::kName : path;
  std::vector<TokenRow> rows;
  DECANT_RETURN_IF_ERROR(ForEachJsonLine(file, [&rows](int64_t, const json& line) -> Status {
    if (FindKey(line, "header") != nullptr) return Status();
    const json* request = FindKey(line, "request");
    if (request == nullptr) return DataLoss("neither 'header' nor 'request'");
    DECANT_ASSIGN_OR_RETURN(TokenRow row, ReadRow(*request));
    rows.push_back(std::move(row));
    return Status();
  }));
  if (rows.empty()) return DataLoss("{}: no request", file.string());
  return rows;
}

}  // namespace decant
