// SPDX-License-Identifier: Apache-2.0
// score.hpp: how often the right answer is among the best guesses: acc1 and acc5 of a sample's lines.
//
// Invariant: a tie counts for the answer, and what is no number never does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace sample {

// The share of rows of `scores` in which fewer than `best` are higher than that of the row's label. `scores` has a row for
// each label, of as many classes as fit.
inline double accuracy(const std::vector<float>& scores, const std::vector<int32_t>& labels, int64_t best) {
  const size_t classes = scores.size() / labels.size();
  double out = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const float own = row[labels[i]];
    const auto higher = [&](float other) { return !(other <= own); };
    out += std::count_if(row, row + static_cast<std::ptrdiff_t>(classes), higher) < best;
  }
  return out / static_cast<double>(labels.size());
}

}  // namespace sample
