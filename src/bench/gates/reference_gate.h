#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/gates/gate_report.h"
#include "bench/gates/served_run.h"

namespace decant {

/// How far transformers itself is from its fp32 on one prompt, in a lower precision.
struct ReferenceYardstick {
  double rms = 0;      ///< Root of the mean square of its logits' errors.
  bool flips = false;  ///< It picks another token at some position.
};

/// A prompt of a golden file, and what Hugging Face transformers made of it in fp32.
struct ReferencePrompt {
  std::string name{};
  std::vector<Token> prompt{};
  std::vector<Token> greedy{};
  std::vector<float> gaps{};  ///< Per token of greedy, between the two largest logits.
  /// In bf16 the prompt's logits are far off whoever computes them.
  bool ill_conditioned = false;
  /// The same model in bf16 and fp16, where the file has them.
  std::optional<ReferenceYardstick> bf16{};
  std::optional<ReferenceYardstick> fp16{};
};

/// A golden file of the model tests; tests/data/golden/README.md describes it.
struct ReferenceFile {
  std::string model{};
  int32_t vocab = 0;
  std::vector<ReferencePrompt> prompts{};
};

/// Reads a golden file. Errors, with the line: no such file, no JSON, a field that is missing or of
/// another type, ids outside the vocabulary, lists whose lengths contradict each other.
Expected<ReferenceFile> ReadReferenceFile(const std::filesystem::path& path);

struct ReferenceGateOptions {
  EngineOptions engine{};
  ReferenceFile reference{};
  std::string file_name{};
  int32_t max_prompt_tokens = 0;  ///< Longer prompts are left out; 0: none.
  /// Absent: NearTieGap of the engine's type or four times the yardstick's rms, whichever is more.
  std::optional<double> near_tie_gap{};
  /// Absent: 4 or half as many again as prompts that the yardstick flips, whichever is more.
  std::optional<int32_t> max_flip_sites{};
};

/// Greedy tokens of the engine against the file's under the near-tie rule. The reference computed
/// in fp32, the engine in its own type: where the file says how far transformers itself is from
/// fp32 in that type, that widens the rule, and prompts on which bf16 leaves the road are left to
/// fp32 and fp16. Errors: a file of another vocabulary; an engine that cannot be loaded.
Expected<GateReport> RunReferenceGate(const EngineLoader& loader,
                                      const ReferenceGateOptions& options);

}  // namespace decant
