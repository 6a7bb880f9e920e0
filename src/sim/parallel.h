#pragma once

#include <cstdint>
#include <functional>

namespace decant {

/// Threads that this machine runs at the same time, at least 1.
int32_t ProcessorCount();

/// body(item) once for each item in [0, items), handed out in order to `threads` >= 1 threads, the
/// caller's among them; returns when all are done. Items must not depend on each other.
void ForEachInParallel(int32_t items, int32_t threads, const std::function<void(int32_t)>& body);

}  // namespace decant
