#include "bench/machine_probe.h"

#include <algorithm>

#include "base/check.h"

namespace decant {

double MachineRates::FloorSeconds(double bytes, double operations) const {
  DECANT_CHECK(bytes_per_second > 0 && operations_per_second > 0);
  return std::max(bytes / bytes_per_second, operations / operations_per_second);
}

MachineRates MeasureRates(Ops& ops) {
  return {.bytes_per_second = ops.MeasureBandwidth(), .operations_per_second = ops.MeasureRate()};
}

}  // namespace decant
