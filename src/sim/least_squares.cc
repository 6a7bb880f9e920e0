#include "sim/least_squares.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace decant {
namespace {

/// A pivot below this share of its term's own square: the term follows from the others.
constexpr double kDependent = 1e-9;

}  // namespace

LeastSquares::LeastSquares(size_t terms) : terms_(terms), products_(terms * terms), right_(terms) {}

void LeastSquares::Add(std::span<const double> values, double target) {
  DECANT_CHECK(values.size() == terms_);
  for (size_t i = 0; i < terms_; ++i) {
    for (size_t j = 0; j < terms_; ++j) products_[i * terms_ + j] += values[i] * values[j];
    right_[i] += values[i] * target;
  }
}

std::vector<double> LeastSquares::Solve() const {
  std::vector<size_t> active(terms_);
  for (size_t i = 0; i < terms_; ++i) active[i] = i;
  for (;;) {
    // Gauss-Jordan on the normal equations of the active terms; a dependent one is left at 0.
    const size_t n = active.size();
    std::vector<std::vector<double>> rows(n, std::vector<double>(n + 1));
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) rows[i][j] = products_[active[i] * terms_ + active[j]];
      rows[i][n] = right_[active[i]];
    }
    std::vector<bool> solved(n);
    for (size_t i = 0; i < n; ++i) {
      const double own = products_[active[i] * terms_ + active[i]];
      if (!(rows[i][i] > kDependent * own)) continue;
      solved[i] = true;
      for (size_t k = 0; k < n; ++k) {
        if (k == i) continue;
        const double factor = rows[k][i] / rows[i][i];
        for (size_t j = i; j <= n; ++j) rows[k][j] -= factor * rows[i][j];
      }
    }
    std::vector<double> weights(terms_);
    size_t worst = n;
    double least = 0;
    for (size_t i = 0; i < n; ++i) {
      const double weight = solved[i] ? rows[i][n] / rows[i][i] : 0;
      const double scale = std::sqrt(products_[active[i] * terms_ + active[i]]);
      if (weight * scale < least) {
        least = weight * scale;
        worst = i;
      }
      weights[active[i]] = weight;
    }
    if (worst == n) return weights;
    active.erase(active.begin() + static_cast<std::ptrdiff_t>(worst));
  }
}

}  // namespace decant
