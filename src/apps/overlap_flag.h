#pragma once

#include <string>
#include <vector>

#include "ops/kernel_overlap.h"

namespace CLI {
class App;
}

namespace decant {

/// Adds --overlap of benches that time kernels one after another: a list of `on` and `off`.
void AddOverlapFlag(CLI::App& app, std::vector<std::string>& overlaps);

/// What the flag, once parsed, asks for.
std::vector<KernelOverlap> ReadOverlaps(const std::vector<std::string>& overlaps);

}  // namespace decant
