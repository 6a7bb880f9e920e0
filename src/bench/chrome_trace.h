#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "base/run_header.h"
#include "base/status.h"
#include "bench/machine_probe.h"
#include "bench/step_trace.h"

namespace decant {

/// Writes one run's steps, in order, as a trace that Perfetto (ui.perfetto.dev) and Chrome open:
/// the track "host loop" with plan, launch, wait and deliver of each step, the track "device
/// `device`" with a span a step, in it a span a layer, in that its parts. `header` goes along.
/// Format: "Trace Event Format", complete events, times in microseconds from the first step's plan.
///
/// The host knows when a step's result had come, not when the device was done. A step's span ends
/// then, or where the next one's begins if that is sooner: the latest that agrees with all that was
/// measured, and exact where the host was waiting.
Status WriteChromeTrace(const std::filesystem::path& path, std::span<const TracedStep> steps,
                        const MachineRates& rates, const std::string& device,
                        const RunHeader& header);

}  // namespace decant
