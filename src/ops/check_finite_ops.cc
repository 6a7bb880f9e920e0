#include "ops/check_finite_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/narrow.h"

namespace decant {
namespace {

/// The operations of a layer, in the order of Forward.
constexpr std::array<std::string_view, 5> kLayerOperations = {
    "norm, q, k and v", "attention", "output projection", "norm, gate and up", "down projection"};

/// Operation 0 is the embedding; those of the layers follow.
std::string NameOf(int32_t place) {
  if (place == 0) return "embedding";
  constexpr auto kOperations = static_cast<int32_t>(kLayerOperations.size());
  return fmt::format("layer {}, {}", (place - 1) / kOperations,
                     kLayerOperations[(place - 1) % kOperations]);
}

std::string TextOf(const TokenFault& fault) {
  const std::string_view kind = fault.nans == 0         ? "inf"
                                : fault.infinities == 0 ? "NaN"
                                                        : "inf or NaN";
  return fmt::format("{}: {} in {} of {} values", NameOf(fault.place), kind,
                     fault.infinities + fault.nans, fault.values);
}

}  // namespace

CheckFiniteOps::CheckFiniteOps(std::unique_ptr<Ops> inner_ops)
    : ForwardingOps(std::move(inner_ops)), scan_(inner().MakeFiniteScan()) {}

void CheckFiniteOps::BeginStep(const StepBatch& batch) {
  inner().BeginStep(batch);
  scan_->Restart(Narrow<int32_t>(batch.token_ids.size()));
  place_ = 0;
}

void CheckFiniteOps::Embed(const EmbeddingWeight& embedding, TensorView residual) {
  inner().Embed(embedding, residual);
  scan_->Look(residual, place_++);
}

void CheckFiniteOps::NormQkvRopeAppend(int32_t layer, const LayerWeights& weights,
                                       TensorView residual, TensorView queries) {
  inner().NormQkvRopeAppend(layer, weights, residual, queries);
  scan_->Look(queries, place_++);
}

void CheckFiniteOps::Attention(int32_t layer, TensorView queries, TensorView attended) {
  inner().Attention(layer, queries, attended);
  scan_->Look(attended, place_++);
}

void CheckFiniteOps::ProjectAdd(const LinearWeight& weight, TensorView input, TensorView residual) {
  inner().ProjectAdd(weight, input, residual);
  scan_->Look(residual, place_++);
}

void CheckFiniteOps::NormGateUpSilu(const LayerWeights& weights, TensorView residual,
                                    TensorView out) {
  inner().NormGateUpSilu(weights, residual, out);
  scan_->Look(out, place_++);
}

std::vector<ActivationFault> CheckFiniteOps::TakeFaults() {
  const std::span<const TokenFault> found = scan_->Faults();
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < Narrow<int32_t>(found.size()); ++token) {
    if (found[token].place != TokenFault::kNowhere) tokens.push_back(token);
  }
  // A token may have it from another one's K and V, in a later operation.
  std::ranges::stable_sort(tokens, {}, [&](int32_t token) { return found[token].place; });
  const std::string_view advice =
      mlp_hidden().dtype == DType::kF16
          ? "fp16's largest is 65504: run with --dtype bf16"
          : "no 16-bit type has a wider range: the weights may be damaged";
  std::vector<ActivationFault> faults;
  faults.reserve(tokens.size());
  for (const int32_t token : tokens) {
    faults.push_back(
        {.token = token, .found = TextOf(found[token]), .advice = std::string(advice)});
  }
  return faults;
}

}  // namespace decant
