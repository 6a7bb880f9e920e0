#pragma once

namespace decant {

/// Whether a kernel may be set up while the one before it on the device still ends (programmatic
/// dependent launch).
enum class KernelOverlap { kAllowed, kNone };

}  // namespace decant
