#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "engine/engine.h"
#include "server/http_exchange.h"

namespace decant {

/// What a machine can do at best.
struct FloorRates {
  double bytes_per_second = 0;
  double operations_per_second = 0;
};

/// What the status says of the model that is served.
struct StatusOptions {
  std::string model_name{};
  int32_t max_model_len = 0;
  int32_t max_batch = 0;
  int32_t page_size = 0;  ///< Slots.
  /// Where they are known, steps stand beside their floor: the longer of what they read and what
  /// they compute at these rates.
  std::optional<FloorRates> rates{};
};

/// Tells what the engine does now, as JSON for the live page: its rows and how far they are, pages,
/// queue, tokens and the last steps. docs/metrics.md lists the fields. Thread-safe.
class StatusPage {
 public:
  /// `engine` must outlive it.
  StatusPage(StatusOptions options, const Engine& engine)
      : options_(std::move(options)), engine_(engine) {}

  HttpResponse Page() const;

 private:
  const StatusOptions options_;
  const Engine& engine_;
  const Stopwatch uptime_;
};

}  // namespace decant
