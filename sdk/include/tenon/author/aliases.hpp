// SPDX-License-Identifier: Apache-2.0
// aliases.hpp: which of the in-place pairs that a fragment declares are honoured, however many it declares.
//
// Invariant: a pair that nobody spoke of is not honoured.
#pragma once

#include <tenon/kernel.h>

#include <algorithm>
#include <span>
#include <vector>

namespace tenon::author {

// How many pairs tn_support.alias_mask has a bit for; those after them are told by tn_support.aliases_beyond.
inline constexpr size_t masked_aliases = 64;

// One word for each declared pair, in their order: whether its output may be written over its input.
using Honoured = std::vector<bool>;

// Asks `honours`, a predicate of tn_alias, of every pair. [any-thread; as the predicate does]
template <class F>
Honoured honoured_of(std::span<const tn_alias> pairs, F&& honours) {
  Honoured out(pairs.size());
  std::transform(pairs.begin(), pairs.end(), out.begin(), honours);
  return out;
}

// Puts them into an answer. [any-thread; does not block; cannot fail]
inline void honour(tn_support& out, const Honoured& pairs) {
  out.alias_mask = 0;
  out.aliases_beyond = 0;
  for (size_t i = 0; i < std::min(pairs.size(), masked_aliases); ++i)
    out.alias_mask |= uint64_t{pairs[i]} << i;
  for (size_t i = masked_aliases; i < pairs.size() && pairs[i]; ++i) ++out.aliases_beyond;
}

// Whether an answer honours pair `i`. [any-thread; does not block; cannot fail]
inline bool honours(const tn_support& answer, size_t i) noexcept {
  return i < masked_aliases ? (answer.alias_mask >> i & 1) != 0 : i - masked_aliases < answer.aliases_beyond;
}

}  // namespace tenon::author
