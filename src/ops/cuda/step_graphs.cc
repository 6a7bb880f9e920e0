#include "ops/cuda/step_graphs.h"

#include <utility>

#include "base/check.h"

namespace decant {

Status StepGraphs::Begin(const Key& key, const CudaStream& stream) {
  DECANT_CHECK(state_ == State::kIdle, "a step of {} tokens begun inside another", key.tokens);
  key_ = key;
  if (graphs_.contains(key)) {
    state_ = State::kReplaying;
    return {};
  }
  DECANT_RETURN_IF_ERROR(CudaGraph::BeginRecording(stream));
  state_ = State::kRecording;
  return {};
}

Status StepGraphs::Finish(const CudaStream& stream) {
  const State state = std::exchange(state_, State::kIdle);
  if (state == State::kIdle) return {};
  if (state == State::kRecording) {
    DECANT_ASSIGN_OR_RETURN(CudaGraph graph, CudaGraph::EndRecording(stream));
    graphs_.insert_or_assign(key_, std::move(graph));
  }
  return graphs_.at(key_).Launch(stream);
}

}  // namespace decant
