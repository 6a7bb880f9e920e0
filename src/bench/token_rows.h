#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/jsonl_writer.h"
#include "base/run_header.h"
#include "base/status.h"
#include "bench/workload.h"

namespace decant {

/// What the requests of one run share.
struct TokenRun {
  std::string workload{};     ///< What results call it: "mixed seed 0".
  WorkloadOptions options{};  ///< How MakeWorkItem draws a request of it.
  std::string load{};         ///< How the requests came: "batch of 32", "6 a second".
  std::string decode_kernel{};
  int32_t page_size = 0;
  int32_t max_batch = 0;
  int32_t chunk_tokens = 0;

  /// "rows, pages of 64, 32 rows, chunks of 512".
  std::string Settings() const;
};

/// What one request of a run got, and all it takes to make the request again.
struct TokenRow {
  TokenRun run{};
  int32_t index = 0;  ///< Of the request in its workload.
  int32_t prompt_tokens = 0;
  uint64_t prompt_hash = 0;  ///< HashTokens of the prompt.
  std::vector<Token> tokens{};
};

/// The tokens of runs: tokens.jsonl in a folder of results, added to. docs/benchmarks/parity.md
/// describes its lines.
class TokenFile {
 public:
  static constexpr const char* kName = "tokens.jsonl";

  static Expected<TokenFile> Open(const std::filesystem::path& folder, const RunHeader& header);

  /// A line: request `index` of the run's workload, whose prompt was `prompt`, got `tokens`.
  Status Add(const TokenRun& run, int32_t index, std::span<const Token> prompt,
             std::span<const Token> tokens);
  Status Close() { return jsonl_.Close(); }

 private:
  explicit TokenFile(JsonlWriter jsonl) : jsonl_(std::move(jsonl)) {}

  JsonlWriter jsonl_;
};

/// All rows of `path`, a file that TokenFile wrote or a folder that holds one, in order. Errors:
/// not found; data loss that names the line and what is wrong with it, or says that there is none.
Expected<std::vector<TokenRow>> ReadTokenRows(const std::filesystem::path& path);

}  // namespace decant
