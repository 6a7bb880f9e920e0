#include "runtime/cuda_runner.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "model/forward.h"
#include "ops/cuda/argmax.h"
#include "ops/cuda/draw.h"
#include "runtime/step_draws.h"
#include "runtime/step_failures.h"

namespace decant {

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
  for (Flight& flight : runner->flights_) {
    DECANT_ASSIGN_OR_RETURN(flight.begin, CudaEvent::Create());
  }
  for (CudaEvent& end : runner->ends_) {
    DECANT_ASSIGN_OR_RETURN(end, CudaEvent::Create());
  }
  return runner;
}

Expected<Ticket> CudaRunner::Launch(const StepPlan& plan) {
  Flight& flight = flights_[plan.step % 2];
  DECANT_CHECK(flight.plan == nullptr, "step {} launched while two are in flight", plan.step);
  DECANT_RETURN_IF_ERROR(Enqueue(plan, flight));
  return Ticket{plan.step};
}

Status CudaRunner::Enqueue(const StepPlan& plan, Flight& flight) {
  flight.plan = &plan;
  packed_.Pack(plan, [](int32_t) { return kLastToken; });
  const TokenSource source = PlanDraws(plan, flight);

  DECANT_RETURN_IF_ERROR(flight.begin.Record(device_.stream()));
  const TensorView residual = QueueLayers(plan, source);
  const auto host_logits = [&](std::span<const int32_t> tokens) -> Expected<TensorView> {
    TensorView view = Logits(ops_, weights_, residual, tokens);
    DECANT_RETURN_IF_ERROR(DownloadLogits(view, flight));
    DECANT_RETURN_IF_ERROR(device_.stream().Synchronize());
    view.data = flight.logits.data();
    return view;
  };
  // By reference: a function object of its own would be allocated in every step.
  DECANT_RETURN_IF_ERROR(sampling_.ReportPrompts(plan, packed_, ops_, std::cref(host_logits)));
  if (source != TokenSource::kHead) {
    const TensorView logits = Logits(ops_, weights_, residual, packed_.logits_tokens());
    DECANT_RETURN_IF_ERROR(device_.status());
    if (logits.rows > 0) DECANT_RETURN_IF_ERROR(DrawTokens(plan, source, logits, flight));
  }
  flight.cost = ops_.Cost();
  flight.failures = FailuresOf(plan, packed_, ops_.TakeFaults());
  DECANT_RETURN_IF_ERROR(device_.status());
  return EndOf(plan.step).Record(device_.stream());
}

TensorView CudaRunner::QueueLayers(const StepPlan& plan, TokenSource source) {
  const bool graphs = limits_.graphs && !ops_.watched();
  const std::span<const int32_t> tokens = packed_.logits_tokens();
  // Where only some tokens are sampled, graphs would be of as many kinds more as there may be.
  const bool all = static_cast<int32_t>(tokens.size()) == packed_.batch().tokens();
  const bool in_graph = graphs && source == TokenSource::kHead && all && AreFirst(tokens);
  device_.UseGraphs(graphs, {.samples = in_graph ? static_cast<int32_t>(tokens.size()) : 0,
                             .turn = TurnOf(plan)});
  TensorView residual = Forward(ops_, weights_, packed_.batch());
  if (in_graph) QueueHeadTokens(plan);
  const bool queued = device_.FinishLayers();
  device_.UseGraphs(false);  // for whoever calls next
  if (!queued) residual = Forward(ops_, weights_, packed_.batch());
  if (source == TokenSource::kHead && !(in_graph && queued)) QueueHeadTokens(plan);
  return residual;
}

void CudaRunner::QueueHeadTokens(const StepPlan& plan) {
  device_.HeadTokens(*weights_.head, packed_.logits_tokens(), slots_, TurnOf(plan));
}

CudaRunner::TokenSource CudaRunner::PlanDraws(const StepPlan& plan, Flight& flight) {
  draws_.Clear();
  slots_.clear();
  bool greedy = true;
  bool logprobs = false;
  for (const PlannedRow& row : plan.rows) {
    if (!row.samples) continue;
    AddDraw(row, draws_);
    slots_.push_back(row.row);
    greedy = greedy && row.sampling.greedy() && !draws_.rows.back().changes_logits();
    logprobs = logprobs || row.sampling.logprobs.has_value();
  }
  flight.has_logits = !slots_.empty() && (observer_ != nullptr || logprobs);
  if (!greedy) return TokenSource::kSampler;
  // Who watches the operations wants to see the head's logits too.
  const bool wants_logits = flight.has_logits || ops_.watched();
  return !wants_logits && device_.finds_tokens_in_head() ? TokenSource::kHead
                                                         : TokenSource::kArgmax;
}

Status CudaRunner::DrawTokens(const StepPlan& plan, TokenSource source, TensorView logits,
                              Flight& flight) {
  const auto* values = reinterpret_cast<const float*>(logits.data);
  // The kernels write the tokens to the host's memory themselves: a copy would take longer.
  int32_t* const tokens = TokensOf(plan);
  if (source == TokenSource::kArgmax) {
    LaunchArgmax(values, limits_.vocab, slots_, device_.last_tokens(), tokens,
                 device_.stream().get());
    DECANT_RETURN_IF_ERROR(CudaStatus(cudaGetLastError(), "sampling"));
  } else {
    DECANT_RETURN_IF_ERROR(
        device_.sampler().Draw(draws_, values, device_.last_tokens(), tokens, device_.stream()));
  }
  ops_.EndPart(StepPart::kSample);
  if (flight.has_logits) DECANT_RETURN_IF_ERROR(DownloadLogits(logits, flight));
  ops_.EndPart(StepPart::kDownload);
  return {};
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

/// Fills in the tokens, and the failures of rows from whose logits none could be drawn.
void CudaRunner::ReportTokens(const Flight& flight, StepResult& result) {
  reported_.clear();
  for (const PlannedRow& row : flight.plan->rows) {
    if (row.samples) reported_.push_back(&row);
  }
  const auto rows = static_cast<int64_t>(reported_.size());
  const TensorView logits{
      .data = flight.logits.data(), .dtype = DType::kF32, .rows = rows, .cols = limits_.vocab};
  if (observer_) observer_(*flight.plan, logits);
  const int32_t* tokens = TokensOf(*flight.plan);
  result.tokens.resize(reported_.size());
  for (int64_t i = 0; i < rows; ++i) {
    if (tokens[i] == kNoDraw) result.failures.push_back(NoDraw(*reported_[i]));
  }
  const auto report = [&](int64_t i) {
    std::span<const float> row;
    if (flight.has_logits) row = {logits.Row<float>(i), static_cast<size_t>(limits_.vocab)};
    result.tokens[i] = sampling_.Report(*reported_[i], std::max(tokens[i], 0), row);
  };
  if (flight.has_logits) {
    ops_.ParallelFor(rows, report);
  } else {
    for (int64_t i = 0; i < rows; ++i) report(i);
  }
}

Status CudaRunner::Wait(Ticket ticket, StepResult& result) {
  Flight& flight = flights_[ticket.step % 2];
  DECANT_CHECK(flight.plan != nullptr && flight.plan->step == ticket.step,
               "step {} waited for, which is not in flight", ticket.step);
  const CudaEvent& end = EndOf(ticket.step);
  Status status = end.Wait();
  if (status.ok()) {
    result.step = ticket.step;
    result.seconds = end.SecondsSince(flight.begin);
    result.gap = ticket.step == 0 ? 0 : flight.begin.SecondsSince(EndOf(ticket.step - 1));
    result.bytes = flight.cost.bytes;
    result.operations = flight.cost.operations;
    result.failures = std::move(flight.failures);
    ReportTokens(flight, result);
  }
  flight.plan = nullptr;
  return status;
}

}  // namespace decant
