#include "runtime/step_failures.h"

#include <limits>

namespace decant {

bool CanDraw(std::span<const float> logits) {
  // Counted, not searched for, so that the loop has no branch; NaN compares false.
  int32_t bad = 0;
  for (const float logit : logits) bad += logit < std::numeric_limits<float>::infinity() ? 0 : 1;
  return bad == 0;
}

RequestFailure NoDraw(const PlannedRow& row) {
  return {.request = row.request,
          .status = Error(StatusCode::kInternal,
                          "the logits after position {} are no numbers: activations left their "
                          "type's range, or the weights are damaged; --check-finite names the "
                          "layer",
                          row.context_len - 1)};
}

std::vector<RequestFailure> FailuresOf(const StepPlan& plan, const PackedBatch& packed,
                                       std::span<const ActivationFault> faults) {
  std::vector<RequestFailure> failures;
  failures.reserve(faults.size());
  for (const ActivationFault& fault : faults) {
    for (size_t i = 0; i < plan.rows.size(); ++i) {
      const PlannedRow& row = plan.rows[i];
      const int32_t offset = fault.token - packed.query_start(i);
      if (offset < 0 || offset >= row.query_len) continue;
      failures.push_back(
          {.request = row.request,
           .status =
               Error(StatusCode::kInternal, "{}, token position {} of request {}; {}", fault.found,
                     row.context_len - row.query_len + offset, row.request, fault.advice)});
    }
  }
  return failures;
}

}  // namespace decant
