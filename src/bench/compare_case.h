#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/engine.h"

namespace decant {

/// One of the measurements that scripts/compare-llama-cpp takes of both programs. `rows` requests
/// with `context` positions in the cache decode `steps` tokens each; without rows, a prompt of
/// `context` tokens is read.
struct CompareCase {
  std::string_view name;
  int32_t rows = 0;
  int32_t context = 0;
  int32_t steps = 0;

  bool prefill() const { return rows == 0; }

  /// What an engine needs so that all rows reach their context in one step, to decode side by side
  /// from then on.
  int32_t chunk_tokens(int32_t at_least) const;
  int32_t max_batch() const { return prefill() ? 1 : rows; }
  int32_t positions() const { return context + steps + 1; }  ///< Of one request, at most.
};

/// All cases.
std::span<const CompareCase> CompareCases();

/// The case of this name; the error names all there are.
Expected<CompareCase> FindCompareCase(std::string_view name);

/// Tokens a second of one repeat, on an idle engine made for the case. A prompt's time goes from
/// its submission to its first token; decoding's is that of the pure decode steps with all rows
/// (from an empty context: from the submission to the last token). `alphabet` (not empty): ids for
/// prompts.
Expected<double> RunCompareCase(Engine& engine, const CompareCase& compare,
                                std::span<const Token> alphabet, uint64_t seed);

}  // namespace decant
