#pragma once

#include <cstdint>

#include "sched/request.h"

namespace decant {

/// When things happened to a request's sample, SteadyNanos; 0: they have not.
struct SampleTimes {
  int64_t arrived = 0;   ///< Its request was read.
  int64_t admitted = 0;  ///< Its first step was planned.
  int64_t first_token = 0;
  int64_t last_token = 0;
  int64_t ended = 0;
};

/// Is told what the server's requests go through: metrics listen here. Calls come from any thread,
/// those of one sample in order; none may block.
class RequestObserver {
 public:
  virtual ~RequestObserver() = default;

  virtual void OnFirstToken(const SampleTimes& times) = 0;
  /// Between a token and the one before it, in seconds.
  virtual void OnTokenGap(double seconds) = 0;
  virtual void OnEnd(const SampleTimes& times, FinishReason reason, int32_t prompt_tokens,
                     int32_t generated_tokens) = 0;
};

}  // namespace decant
