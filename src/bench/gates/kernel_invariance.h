#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "ops/ops_factory.h"

namespace decant {

/// One shape of attention whose outputs must not depend on what else is computed.
struct InvarianceShape {
  int32_t head_dim = 0;
  int32_t group = 0;  ///< Query heads that share a KV head.
  int32_t kv_heads = 0;
  /// Requests, by the positions of their histories; their queries are the last positions.
  std::vector<int32_t> lengths{};
  /// The first is what all others are compared with.
  std::vector<int32_t> page_sizes{};
  /// Sizes of prompt chunks, 2 or more: the queries of a prompt are cut at multiples of one.
  std::vector<int32_t> chunks{};
  uint64_t seed = 0;
};

/// What the comparison found.
struct InvarianceResult {
  int64_t compared = 0;  ///< Outputs of one query each, all heads.
  int64_t differing = 0;
  std::vector<std::string> failures{};  ///< One line for each request and arrangement that differs.
};

/// Runs every request's last query through the decode kernel `kernel` and its last queries through
/// the prompt kernel: alone, among all others, in reverse order, with every second one, with the
/// queries cut into chunks, at every page size, twice. Each output must have the bits that it has
/// alone and uncut at the first page size. Everything that must not be read is poisoned. Errors:
/// what the factory cannot make.
Expected<InvarianceResult> CompareArrangements(const OpsFactory& make_ops, DecodeKernel kernel,
                                               const InvarianceShape& shape);

}  // namespace decant
