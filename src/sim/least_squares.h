#pragma once

#include <span>
#include <vector>

namespace decant {

/// Minimises the squares of `targets` less the terms' weighted sum, over weights of at least 0.
class LeastSquares {
 public:
  explicit LeastSquares(size_t terms);

  /// One observation: a value for each term, and what their weighted sum should be.
  void Add(std::span<const double> values, double target);

  /// The weights [terms]. Terms whose best weight is below 0, or that the observations cannot tell
  /// from the others, get 0.
  std::vector<double> Solve() const;

 private:
  size_t terms_;
  std::vector<double> products_;  ///< [terms, terms]: sums of products of values.
  std::vector<double> right_;     ///< [terms]: sums of value times target.
};

}  // namespace decant
