#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/backend.h"
#include "engine/compute_type.h"
#include "engine/device.h"
#include "engine/engine.h"
#include "model/decoder_weights.h"
#include "model/model_files.h"
#include "ops/ops.h"
#include "text/tokenizer.h"

namespace decant {

/// How to serve a model. Sizes are checked by LoadEngine; errors name the command-line flag.
struct EngineOptions {
  std::string model;  ///< What OpenModelFiles takes; not used with random_weights.
  /// Random weights in a named shape (FindShape), with a tokenizer of bytes: for speed alone.
  struct RandomWeights {
    std::string shape;
    uint64_t seed = 0;
  };
  std::optional<RandomWeights> random_weights{};
  Device device{};
  ComputeType compute_type = ComputeType::kAuto;
  int32_t threads = 0;  ///< Of the host; 0: one for each processor.
  DecodeKernel decode_kernel = DecodeKernel::kSplit;
  LinearLayers linear = LinearLayers::kLibrary;
  WeightCopies weight_copies = WeightCopies::kKeep;
  bool graphs = true;  ///< On CUDA: whether steps may be launched as graphs.
  /// Look for activations that are no finite numbers after every operation (CheckFiniteOps).
  bool check_finite = false;
  int32_t page_size = 64;  ///< slots
  /// Memory for K and V; absent: 2 GiB on the CPU, where it is touched as it is used, and what
  /// gpu_memory_utilization leaves on a GPU.
  std::optional<double> pool_gib{};
  double gpu_memory_utilization = 0.9;  ///< Of a GPU's memory, for weights, workspace and pool.
  int32_t max_batch = 32;
  int32_t chunk_tokens = 512;  ///< Prompt tokens a step, at most.
  /// Each step's chunk is chosen (ChunkPolicy): at the balance of bytes and operations, which is
  /// measured while the model is loaded, or so that loaded steps stay under max_step_ms.
  bool auto_chunk = false;
  std::optional<double> max_step_ms{};     ///< Only with auto_chunk.
  int32_t max_model_len = 0;               ///< 0: the model's own.
  bool poison_freed_pages = false;         ///< As ServedModel::PoisonFreedPages, from the start.
  size_t step_history = 65536;             ///< StepRecords kept.
  std::optional<uint64_t> fail_at_step{};  ///< For drills: this step and all later ones fail.

  // For gates.
  LogitsObserver logits_observer = nullptr;
  int32_t max_pages = 0;  ///< Pages at most, however many there is memory for; 0: no limit.
  /// Makes what the model computes with out of the backend; empty: the backend itself.
  OpsWrapper wrap_ops{};
};

/// A model ready to serve: everything from the file to the engine's loop, torn down in the right
/// order.
class ServedModel {
 public:
  const ModelConfig& config() const { return files_.config; }
  const ModelFiles& files() const { return files_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const std::shared_ptr<const Tokenizer>& shared_tokenizer() const { return tokenizer_; }
  Engine& engine() { return *engine_; }
  /// Ops may be used while the engine is idle only (MeasureRate, Describe).
  Ops& ops() { return backend_->ops(); }
  /// For gates: from now on pages fill with NaN, or no longer do, when they are freed.
  void PoisonFreedPages(bool poison) { poison_freed_pages_ = poison; }
  int64_t workspace_bytes() const { return backend_->workspace_bytes(); }
  int32_t num_pages() const { return num_pages_; }
  int32_t page_size() const { return page_size_; }
  /// Bytes of K and V of the whole pool.
  int64_t pool_bytes() const {
    return config().KvBytesPerToken(sizeof(Bf16)) * page_size_ * num_pages_;
  }
  int32_t max_model_len() const { return max_model_len_; }
  /// Which type the model computes in, and why.
  const ChosenType& compute_type() const { return compute_type_; }
  /// From the first look at the files until requests may come.
  double load_seconds() const { return load_seconds_; }
  /// The part of it in which the weights were read and packed.
  double weights_seconds() const { return weights_seconds_; }
  /// Of all tensors, as the files have them.
  int64_t file_bytes() const { return files_.tensors ? files_.tensors->data_bytes() : 0; }

 private:
  friend Expected<std::unique_ptr<ServedModel>> LoadEngine(const EngineOptions&,
                                                           const LoadProgress&);
  ModelFiles files_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  ChosenType compute_type_;
  std::unique_ptr<Backend> backend_;
  DecoderWeights weights_;
  std::atomic<bool> poison_freed_pages_ = false;
  int32_t num_pages_ = 0;
  int32_t page_size_ = 0;
  int32_t max_model_len_ = 0;
  double load_seconds_ = 0;
  double weights_seconds_ = 0;
  std::unique_ptr<Engine> engine_;  // last, so that it stops first
};

/// Opens, packs and starts. `progress` may be empty.
Expected<std::unique_ptr<ServedModel>> LoadEngine(const EngineOptions& options,
                                                  const LoadProgress& progress);

}  // namespace decant
