#include "runtime/cuda_runner.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "model/forward.h"
#include "ops/cuda/argmax.h"

namespace decant {
namespace {

/// Whether the device's argmax is all that a row asks for.
bool SampledOnDevice(const PlannedRow& row) {
  const SamplingParams& params = row.sampling;
  return params.greedy() && !params.logprobs && !params.prompt_logprobs &&
         !ChangesLogits(params, row.sample_index);
}

}  // namespace

CudaRunner::CudaRunner(Ops& ops, CudaOps& device, const DecoderWeights& weights,
                       const Limits& limits, LogitsObserver observer)
    : ops_(ops),
      device_(device),
      weights_(weights),
      limits_(limits),
      observer_(std::move(observer)),
      sampling_(limits.max_rows) {}

Expected<std::unique_ptr<CudaRunner>> CudaRunner::Create(Ops& ops, CudaOps& device,
                                                         const DecoderWeights& weights,
                                                         const Limits& limits,
                                                         LogitsObserver observer) {
  std::unique_ptr<CudaRunner> runner(
      new CudaRunner(ops, device, weights, limits, std::move(observer)));
  const size_t bytes = static_cast<size_t>(limits.max_rows) * sizeof(int32_t);
  DECANT_ASSIGN_OR_RETURN(runner->tokens_, DeviceBuffer::Allocate(bytes, "sampled tokens"));
  DECANT_ASSIGN_OR_RETURN(runner->chosen_, PinnedBuffer::Allocate(bytes, "sampled tokens"));
  for (Flight& flight : runner->flights_) {
    DECANT_ASSIGN_OR_RETURN(flight.begin, CudaEvent::Create());
    DECANT_ASSIGN_OR_RETURN(flight.end, CudaEvent::Create());
    DECANT_ASSIGN_OR_RETURN(flight.tokens, PinnedBuffer::Allocate(bytes, "sampled tokens"));
  }
  return runner;
}

Expected<Ticket> CudaRunner::Launch(const StepPlan& plan) {
  Flight& before = flights_[(plan.step + 1) % 2];
  if (before.plan != nullptr) DECANT_RETURN_IF_ERROR(FinishSampling(before, Await::kHostRows));
  Flight& flight = flights_[plan.step % 2];
  DECANT_CHECK(flight.plan == nullptr, "step {} launched while two are in flight", plan.step);
  DECANT_RETURN_IF_ERROR(Enqueue(plan, flight));
  return Ticket{plan.step};
}

Status CudaRunner::Enqueue(const StepPlan& plan, Flight& flight) {
  flight.plan = &plan;
  flight.on_host.clear();
  flight.sampled = false;
  slots_.clear();
  const StepBatch& batch = packed_.Pack(plan, [](int32_t) { return kLastToken; });
  for (const PlannedRow& row : plan.rows) {
    if (!row.samples) continue;
    if (!SampledOnDevice(row)) flight.on_host.push_back(static_cast<int32_t>(slots_.size()));
    slots_.push_back(row.row);
  }

  DECANT_RETURN_IF_ERROR(flight.begin.Record(device_.stream()));
  const TensorView residual = Forward(ops_, weights_, batch);
  const auto host_logits = [&](std::span<const int32_t> tokens) -> Expected<TensorView> {
    TensorView view = Logits(ops_, weights_, residual, tokens);
    DECANT_RETURN_IF_ERROR(DownloadLogits(view, flight));
    DECANT_RETURN_IF_ERROR(device_.stream().Synchronize());
    view.data = flight.logits.data();
    return view;
  };
  DECANT_RETURN_IF_ERROR(sampling_.ReportPrompts(plan, packed_, ops_, host_logits));
  const TensorView logits = Logits(ops_, weights_, residual, packed_.logits_tokens());
  DECANT_RETURN_IF_ERROR(device_.status());
  if (!slots_.empty()) {
    LaunchArgmax(reinterpret_cast<const float*>(logits.data), limits_.vocab, slots_,
                 device_.last_tokens(), tokens_.As<int32_t>(), device_.stream().get());
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "sampling"));
    ops_.EndPart(StepPart::kSample);
    DECANT_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(flight.tokens.data(), tokens_.data(), slots_.size() * sizeof(int32_t),
                        cudaMemcpyDeviceToHost, device_.stream().get()),
        "downloading tokens"));
    if (observer_ || !flight.on_host.empty()) {
      DECANT_RETURN_IF_ERROR(DownloadLogits(logits, flight));
    }
    ops_.EndPart(StepPart::kDownload);
  }
  flight.cost = ops_.Cost();
  return flight.end.Record(device_.stream());
}

Status CudaRunner::DownloadLogits(TensorView logits, Flight& flight) {
  if (flight.logits.size() == 0) {
    DECANT_ASSIGN_OR_RETURN(
        flight.logits, PinnedBuffer::Allocate(
                           static_cast<size_t>(limits_.max_samples) * limits_.vocab * sizeof(float),
                           "logits on the host"));
  }
  return CudaStatus(cudaMemcpyAsync(flight.logits.data(), logits.data,
                                    static_cast<size_t>(logits.rows * logits.cols) * sizeof(float),
                                    cudaMemcpyDeviceToHost, device_.stream().get()),
                    "downloading logits");
}

Status CudaRunner::FinishSampling(Flight& flight, Await await) {
  if (flight.sampled) return {};
  if (await == Await::kHostRows && flight.on_host.empty() && !observer_) return {};
  DECANT_RETURN_IF_ERROR(flight.end.Wait());
  flight.sampled = true;
  std::vector<const PlannedRow*> sampling;
  for (const PlannedRow& row : flight.plan->rows) {
    if (row.samples) sampling.push_back(&row);
  }
  const TensorView logits{.data = flight.logits.data(),
                          .dtype = DType::kF32,
                          .rows = static_cast<int64_t>(sampling.size()),
                          .cols = limits_.vocab};
  if (observer_) observer_(*flight.plan, logits);
  const auto* tokens = flight.tokens.As<int32_t>();
  flight.results.resize(sampling.size());
  for (size_t i = 0; i < sampling.size(); ++i) {
    flight.results[i] = {
        .request = sampling[i]->request, .row = sampling[i]->row, .token = tokens[i]};
  }
  ops_.ParallelFor(static_cast<int64_t>(flight.on_host.size()), [&](int64_t k) {
    const int32_t i = flight.on_host[k];
    flight.results[i] =
        sampling_.Sample(*sampling[i], {logits.Row<float>(i), static_cast<size_t>(limits_.vocab)});
  });
  for (const int32_t i : flight.on_host) {
    const int32_t slot = sampling[i]->row;
    chosen_.As<int32_t>()[slot] = flight.results[i].token;
    DECANT_RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(device_.last_tokens() + slot, chosen_.As<int32_t>() + slot,
                                   sizeof(int32_t), cudaMemcpyHostToDevice, device_.stream().get()),
                   "uploading sampled tokens"));
  }
  return {};
}

Expected<StepResult> CudaRunner::Wait(Ticket ticket) {
  Flight& flight = flights_[ticket.step % 2];
  DECANT_CHECK(flight.plan != nullptr && flight.plan->step == ticket.step,
               "step {} waited for, which is not in flight", ticket.step);
  const Status status = FinishSampling(flight, Await::kAll);
  flight.plan = nullptr;
  DECANT_RETURN_IF_ERROR(status);
  return StepResult{.step = ticket.step,
                    .seconds = flight.end.SecondsSince(flight.begin),
                    .bytes = flight.cost.bytes,
                    .operations = flight.cost.operations,
                    .tokens = std::exchange(flight.results, {})};
}

}  // namespace decant
