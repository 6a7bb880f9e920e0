#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor_view.h"

namespace decant {

/// Where a token's activations first held something other than finite numbers, and what.
struct TokenFault {
  int32_t place;  ///< As Look was told; kNowhere: nowhere.
  int32_t infinities;
  int32_t nans;
  int32_t values;  ///< All there are in the row.

  static constexpr int32_t kNowhere = -1;
};

/// Looks at the activations of a step where the device has them.
class FiniteScan {
 public:
  virtual ~FiniteScan() = default;

  /// Forgets what was found: a step of so many tokens begins.
  virtual void Restart(int32_t tokens) = 0;

  /// Looks at `view` [tokens, cols], as the operations called before leave it. A token whose row is
  /// not finite, and in which nothing was found before, is kept with `place`.
  virtual void Look(TensorView view, int32_t place) = 0;

  /// Of each token [tokens]. Waits for the device; valid until the next call.
  virtual std::span<const TokenFault> Faults() = 0;
};

/// For devices whose views lie in host memory, and whose operations are done when they return.
class HostFiniteScan : public FiniteScan {
 public:
  void Restart(int32_t tokens) override;
  void Look(TensorView view, int32_t place) override;
  std::span<const TokenFault> Faults() override { return faults_; }

 private:
  std::vector<TokenFault> faults_;
};

}  // namespace decant
