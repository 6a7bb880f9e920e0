#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace decant {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr double kTurn = 2 * std::numbers::pi;

Status CheckRange(std::string_view name, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return DataLoss("{} is {}; {} to {} is supported", name, value, low, high);
}

Status CheckScaling(const RopeScaling& scaling, int32_t head_dim) {
  if (scaling.kind == RopeKind::kNone) return {};
  if (scaling.kind == RopeKind::kDivisors) {
    if (static_cast<int32_t>(scaling.divisors.size()) != head_dim / 2) {
      return DataLoss("{} divisors of frequencies; there are {} pairs", scaling.divisors.size(),
                      head_dim / 2);
    }
    for (const float divisor : scaling.divisors) {
      DECANT_RETURN_IF_ERROR(CheckRange("a divisor of a frequency", divisor, 1e-6, kMaxFactor));
    }
    return {};
  }
  DECANT_RETURN_IF_ERROR(CheckRange("factor", scaling.factor, 1, kMaxFactor));
  if (scaling.kind == RopeKind::kLinear) return {};
  DECANT_RETURN_IF_ERROR(
      CheckRange("original_max_position_embeddings", scaling.original_positions, 1, 1 << 24));
  if (scaling.kind == RopeKind::kLlama3) {
    DECANT_RETURN_IF_ERROR(CheckRange("low_freq_factor", scaling.low_freq_factor, 1e-6, 1e6));
    DECANT_RETURN_IF_ERROR(CheckRange("high_freq_factor", scaling.high_freq_factor, 1e-6, 1e6));
    if (scaling.low_freq_factor < scaling.high_freq_factor) return {};
    return DataLoss("low_freq_factor {} is not below high_freq_factor {}", scaling.low_freq_factor,
                    scaling.high_freq_factor);
  }
  DECANT_RETURN_IF_ERROR(CheckRange("beta_slow", scaling.beta_slow, 1e-6, 1e6));
  DECANT_RETURN_IF_ERROR(CheckRange("beta_fast", scaling.beta_fast, scaling.beta_slow, 1e6));
  DECANT_RETURN_IF_ERROR(CheckRange("mscale", scaling.mscale, 0, 1e3));
  DECANT_RETURN_IF_ERROR(CheckRange("mscale_all_dim", scaling.mscale_all_dim, 0, 1e3));
  return CheckRange("attention_factor", scaling.attention_factor.value_or(1), 1e-3, 1e3);
}

void ScaleLlama3(const RopeScaling& scaling, std::vector<float>& frequencies) {
  for (float& frequency : frequencies) {
    const double turns = scaling.original_positions * frequency / kTurn;
    const double divided = frequency / scaling.factor;
    // 0 where the pair turns slowly, 1 where it turns fast.
    const double smooth = std::clamp(
        (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor),
        0.0, 1.0);
    frequency = static_cast<float>((1 - smooth) * divided + smooth * frequency);
  }
}

void ScaleYarn(const RopeScaling& scaling, float base, int32_t head_dim,
               std::vector<float>& frequencies) {
  // The pair, as a real number, that turns so many times in the original positions.
  const auto pair_of = [&](double turns) {
    return head_dim * std::log(scaling.original_positions / (turns * kTurn)) /
           (2 * std::log(double{base}));
  };
  double first = pair_of(scaling.beta_fast);
  double last = pair_of(scaling.beta_slow);
  if (scaling.truncate) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, head_dim - 1.0);
  if (first == last) last += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double divided = std::clamp((static_cast<double>(i) - first) / (last - first), 0.0, 1.0);
    const double frequency = frequencies[i];
    frequencies[i] =
        static_cast<float>(frequency / scaling.factor * divided + frequency * (1 - divided));
  }
}

double YarnScale(const RopeScaling& scaling) {
  if (scaling.attention_factor) return *scaling.attention_factor;
  const auto scale = [&](double mscale) {
    return scaling.factor <= 1 ? 1.0 : 0.1 * mscale * std::log(scaling.factor) + 1;
  };
  if (scaling.mscale != 0 && scaling.mscale_all_dim != 0) {
    return scale(scaling.mscale) / scale(scaling.mscale_all_dim);
  }
  return scale(1);
}

}  // namespace

std::string_view RopeKindName(RopeKind kind) {
  switch (kind) {
    case RopeKind::kNone:
      return "none";
    case RopeKind::kLinear:
      return "linear";
    case RopeKind::kLlama3:
      return "llama3";
    case RopeKind::kYarn:
      return "yarn";
    case RopeKind::kDivisors:
      return "divisors";
  }
  return "none";
}

Expected<RopeTable> ComputeRope(float base, int32_t head_dim, const RopeScaling& scaling) {
  DECANT_RETURN_IF_ERROR(CheckScaling(scaling, head_dim));
  if (scaling.kind == RopeKind::kYarn && !(base > 1)) {
    return DataLoss("YaRN needs a RoPE base above 1, not {}", base);
  }
  RopeTable table;
  // In float, as the reference implementation computes them.
  for (int32_t i = 0; i < head_dim; i += 2) {
    table.frequencies.push_back(
        1.0F / std::pow(base, static_cast<float>(i) / static_cast<float>(head_dim)));
  }
  switch (scaling.kind) {
    case RopeKind::kNone:
      break;
    case RopeKind::kLinear:
      for (float& frequency : table.frequencies) frequency /= static_cast<float>(scaling.factor);
      break;
    case RopeKind::kLlama3:
      ScaleLlama3(scaling, table.frequencies);
      break;
    case RopeKind::kYarn:
      ScaleYarn(scaling, base, head_dim, table.frequencies);
      table.scale = static_cast<float>(YarnScale(scaling));
      break;
    case RopeKind::kDivisors:
      for (size_t i = 0; i < table.frequencies.size(); ++i) {
        table.frequencies[i] /= scaling.divisors[i];
      }
      break;
  }
  return table;
}

}  // namespace decant
