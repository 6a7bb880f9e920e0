#pragma once

#include "model/decoder_weights.h"
#include "model/model_config.h"
#include "sched/chunk_policy.h"

namespace decant {

/// What reading and computing the parts of a loaded step takes at best, on a device that reads
/// `bytes_per_second` and computes `operations_per_second` (a multiply-add counts two), both above
/// 0: the two floors that benchmarks print beside steps, part by part.
StepBalance MakeStepBalance(const ModelConfig& config, const DecoderWeights& weights,
                            double bytes_per_second, double operations_per_second);

}  // namespace decant
