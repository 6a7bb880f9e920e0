#include "bench/timed_ops.h"

#include <utility>

#include "base/check.h"

namespace decant {

std::array<double, kStepParts> StepTimes::Parts() const {
  std::array<double, kStepParts> parts{};
  for (const PartInterval& interval : intervals) {
    parts[static_cast<size_t>(interval.part)] += interval.seconds;
  }
  return parts;
}

double StepTimes::total() const {
  double seconds = 0;
  for (const PartInterval& interval : intervals) seconds += interval.seconds;
  return seconds;
}

TimedOps::TimedOps(std::unique_ptr<Ops> ops) : ForwardingOps(std::move(ops)) {
  for (Flight& flight : flights_) flight.clock = inner().MakeClock();
}

void TimedOps::Start() {
  steps_.clear();
  now_ = &flights_[1];
  timing_ = true;
}

std::vector<StepTimes> TimedOps::Stop() {
  timing_ = false;
  inner().MarkAttention(nullptr);
  Flight& last = *now_;
  Flight& before = &last == &flights_[0] ? flights_[1] : flights_[0];
  Collect(before);
  Collect(last);
  return std::exchange(steps_, {});
}

void TimedOps::Collect(Flight& flight) {
  if (!std::exchange(flight.begun, false)) return;
  const std::vector<double> seconds = flight.clock->Intervals();
  DECANT_CHECK(seconds.size() == flight.parts.size(), "{} intervals of {} parts", seconds.size(),
               flight.parts.size());
  StepTimes step{.decode_share = flight.decode_share};
  for (size_t i = 0; i < seconds.size(); ++i) {
    step.intervals.push_back({.part = flight.parts[i], .seconds = seconds[i]});
  }
  steps_.push_back(std::move(step));
}

void TimedOps::End(StepPart part) {
  if (!timing_) return;
  now_->clock->Mark();
  now_->parts.push_back(part);
}

void TimedOps::BeginStep(const StepBatch& batch) {
  if (!timing_) return ForwardingOps::BeginStep(batch);
  now_ = now_ == &flights_[0] ? &flights_[1] : &flights_[0];
  // The step before the last has been waited for.
  Collect(*now_);
  now_->parts.clear();
  now_->begun = true;
  now_->clock->Restart();

  size_t decode_rows = 0;
  while (decode_rows < batch.rows.size() && batch.rows[decode_rows].query_len == 1) ++decode_rows;
  now_->decode_share =
      CountAttention(batch.rows.first(decode_rows)).products / CountAttention(batch.rows).products;
  const bool both = decode_rows > 0 && decode_rows < batch.rows.size();
  const bool apart = inner().MarkAttention(both ? now_->clock.get() : nullptr);
  if (both) {
    attention_parts_ = apart ? std::vector{StepPart::kPromptAttention, StepPart::kDecodeAttention}
                             : std::vector{StepPart::kAttention};
  } else {
    attention_parts_ = {decode_rows > 0 ? StepPart::kDecodeAttention : StepPart::kPromptAttention};
  }

  now_->clock->Mark();
  ForwardingOps::BeginStep(batch);
  End(StepPart::kUpload);
}

void TimedOps::Embed(const EmbeddingWeight& embedding, TensorView residual) {
  ForwardingOps::Embed(embedding, residual);
  End(StepPart::kEmbed);
}

void TimedOps::NormQkvRopeAppend(int32_t layer, const LayerWeights& weights, TensorView residual,
                                 TensorView queries) {
  output_ = weights.output.get();
  ForwardingOps::NormQkvRopeAppend(layer, weights, residual, queries);
  End(StepPart::kQkv);
}

void TimedOps::Attention(int32_t layer, TensorView queries, TensorView attended) {
  ForwardingOps::Attention(layer, queries, attended);
  if (!timing_) return;
  // With two parts the implementation has marked the end of the first.
  if (attention_parts_.size() == 2) now_->parts.push_back(attention_parts_.front());
  End(attention_parts_.back());
}

void TimedOps::ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) {
  ForwardingOps::ProjectAdd(weight, input, residual);
  End(&weight == output_ ? StepPart::kOutput : StepPart::kDown);
}

void TimedOps::NormGateUpSilu(const LayerWeights& weights, TensorView residual, TensorView out) {
  ForwardingOps::NormGateUpSilu(weights, residual, out);
  End(StepPart::kGateUp);
}

TensorView TimedOps::NormHead(const VectorWeight& final_norm, const LinearWeight& head,
                              TensorView residual, std::span<const int32_t> tokens) {
  const TensorView logits = ForwardingOps::NormHead(final_norm, head, residual, tokens);
  End(StepPart::kHead);
  return logits;
}

void TimedOps::EndPart(StepPart part) {
  ForwardingOps::EndPart(part);
  End(part);
}

}  // namespace decant
