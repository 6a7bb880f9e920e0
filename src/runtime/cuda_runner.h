#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "model/decoder_weights.h"
#include "ops/cuda/cuda_ops.h"
#include "ops/cuda/sampler.h"
#include "runtime/host_sampling.h"
#include "runtime/logits_observer.h"
#include "runtime/packed_batch.h"
#include "runtime/step_runner.h"

namespace decant {

/// Steps of a model on a GPU. Launch queues a whole step, from one upload to one download, and
/// returns; tokens sampled on the device feed the next step there, so that a step can be queued
/// while the one before it runs.
///
/// Tokens are drawn on the device, whatever their requests ask for. Log-probabilities, and what an
/// observer looks at, come from logits that are downloaded beside them, once the step is waited
/// for. Where nobody needs the logits, none are written.
class CudaRunner : public StepRunner {
 public:
  struct Limits {
    int32_t max_rows = 0;
    int32_t max_samples = 0;  ///< Tokens of one NormHead at most; max_rows at least.
    int32_t vocab = 0;
    bool graphs = true;  ///< Whether the layers of a step may be launched as a graph.
  };

  /// `ops` computes: `device` itself, or something that wraps it. Both and `weights` must outlive
  /// the runner. Errors: no memory.
  static Expected<std::unique_ptr<CudaRunner>> Create(Ops& ops, CudaOps& device,
                                                      const DecoderWeights& weights,
                                                      const Limits& limits,
                                                      LogitsObserver observer);

  Expected<Ticket> Launch(const StepPlan& plan) override;
  Status Wait(Ticket ticket, StepResult& result) override;

 private:
  /// A step that was launched and not waited for.
  struct Flight {
    const StepPlan* plan = nullptr;
    CudaEvent begin;
    PinnedBuffer logits;      ///< [max_samples, vocab], made when first needed
    bool has_logits = false;  ///< Of the rows that sample, whether they were downloaded.
    StepCost cost;
    std::vector<RequestFailure> failures;  ///< Found in activations.
  };

  /// Where a step's tokens come from.
  enum class TokenSource {
    kHead,     ///< The head itself, which writes no logits. All rows that sample are greedy.
    kArgmax,   ///< Logits, of which somebody wants more than the tokens, or cuBLASLt's. All greedy.
    kSampler,  ///< Logits, by the sampler.
  };

  CudaRunner(Ops& ops, CudaOps& device, const DecoderWeights& weights, const Limits& limits,
             LogitsObserver observer);

  CudaEvent& EndOf(uint64_t step) { return ends_[step % ends_.size()]; }
  /// [max_rows], of the rows that sample, in plan order.
  int32_t* TokensOf(const StepPlan& plan) { return device_.drawn_tokens(TurnOf(plan)); }
  static int TurnOf(const StepPlan& plan) { return static_cast<int>(plan.step % 2); }
  Status Enqueue(const StepPlan& plan, Flight& flight);
  /// Queues the layers, and where the head finds the tokens, that too.
  TensorView QueueLayers(const StepPlan& plan, TokenSource source);
  void QueueHeadTokens(const StepPlan& plan);
  /// Collects the draws of the plan's rows that sample, in plan order, and says whether their
  /// logits are to be downloaded.
  TokenSource PlanDraws(const StepPlan& plan, Flight& flight);
  /// Queues them; logits: of the rows that sample.
  Status DrawTokens(const StepPlan& plan, TokenSource source, TensorView logits, Flight& flight);
  Status DownloadLogits(TensorView logits, Flight& flight);
  /// The tokens of the rows that sampled, and the failures of those from whose logits none could be
  /// drawn.
  void ReportTokens(const Flight& flight, StepResult& result);

  Ops& ops_;
  CudaOps& device_;
  const DecoderWeights& weights_;
  const Limits limits_;
  LogitsObserver observer_;
  PackedBatch packed_;
  HostSampling sampling_;
  StepDraws draws_;
  std::vector<int32_t> slots_;
  std::vector<const PlannedRow*> reported_;
  std::array<Flight, 2> flights_;  ///< Step n lies at n % 2.
  /// Step n's lies at n % 4: when n + 1 is waited for, n + 2 has been launched.
  std::array<CudaEvent, 4> ends_;
};

}  // namespace decant
