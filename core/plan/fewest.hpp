// SPDX-License-Identifier: Apache-2.0
// fewest.hpp: which of many things make the difference, by asking about fewer and fewer of them.
//
// Invariant: what is returned still makes the difference, and no single one of it can be left out.
#pragma once

#include <tenon/result.hpp>

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace tenon::plan_room {

// Of 0 … count - 1, all of which together make a difference. `differs` tells of some of them, ascending, whether they do.
// Halves while one half is enough, then leaves single ones out. [the caller's thread; may fail as `differs` does]
template <class Differs>
Result<std::vector<size_t>> fewest(size_t count, Differs&& differs) {
  std::vector<size_t> left(count);
  std::iota(left.begin(), left.end(), size_t{0});
  while (left.size() > 1) {
    const std::span<const size_t> all(left);
    const auto first = all.first(left.size() / 2), second = all.subspan(left.size() / 2);
    const bool in_first = TN_TRY(differs(first));
    if (!in_first && !TN_TRY(differs(second))) break;
    const auto kept = in_first ? first : second;
    left = std::vector<size_t>(kept.begin(), kept.end());
  }
  for (size_t i = 0; i < left.size() && left.size() > 1;) {
    std::vector<size_t> fewer = left;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (TN_TRY(differs(std::span<const size_t>(fewer)))) {
      left = std::move(fewer);
    } else {
      ++i;
    }
  }
  return left;
}

}  // namespace tenon::plan_room
