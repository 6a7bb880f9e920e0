#pragma once

#include "ops/ops.h"

namespace decant {

/// What this machine can do at best, measured; the floors of step times come from it.
struct MachineRates {
  double bytes_per_second = 0;       ///< Reading memory.
  double operations_per_second = 0;  ///< Of a large matrix product; a multiply-add counts two.

  /// The least time for a step: what it reads and what it computes may overlap, so the longer one.
  double FloorSeconds(double bytes, double operations) const;
};

/// Measures both, now; takes a second or so.
MachineRates MeasureRates(Ops& ops);

}  // namespace decant
