#pragma once

#include "jinja/failure.h"

namespace decant::jinja {

/// Counts one level of recursion for as long as it lives; fails beyond a limit.
class DepthGuard {
 public:
  DepthGuard(int& depth, int limit) : depth_(depth) {
    if (depth >= limit) FailLimit("nested more than {} deep", limit);
    ++depth_;
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

 private:
  int& depth_;
};

}  // namespace decant::jinja
