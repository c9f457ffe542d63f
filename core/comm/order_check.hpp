// SPDX-License-Identifier: Apache-2.0
// order_check.hpp: whether ranks that stand still can ever go on, by what they said of themselves.
//
// Two things are found. Ranks have different collectives as the same one. Or groups wait for each other in a circle: a group for the same
// collective of the other ranks, or for the message that it receives; and each behind the group before it.
// Invariant: only what was said is used, and all of it stays true, so a verdict cannot be wrong because a rank has gone on meanwhile;
// who has said nothing is waited for.
#pragma once

#include "comm/standing.hpp"

#include <map>
#include <span>
#include <string>
#include <vector>

namespace tenon::comm {

// What ranks of one communicator said.
struct Assembly {
  std::string key{}, name{};
  uint32_t size = 0;
  std::map<uint32_t, Standing> ranks{};
};

// The first collectives that differ, in words; "" where none do. [any-thread; does not block; may throw std::bad_alloc]
std::string difference(const Assembly& assembly);
struct Circle {
  std::string words{};               // "": there is none
  std::vector<size_t> assemblies{};  // those that it goes through
};
// One that begins in the first of `assemblies`. [any-thread; does not block; may throw std::bad_alloc]
Circle circle(std::span<const Assembly> assemblies);

}  // namespace tenon::comm
