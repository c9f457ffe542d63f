// SPDX-License-Identifier: Apache-2.0
// lane.hpp: one communication stream with its communicator, and what ranks tell each other over it between steps.
//
// Invariant: every rank calls these in the same order with the same sizes; each returns when it is done.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/hierarchy.hpp>

#include <span>
#include <string>
#include <vector>

namespace tenon::overlap {

struct Lane {
  Communicator comm{};
  Hierarchy groups{};  // over `comm`; empty: all goes flat
  Stream stream{};

  // Splits `from`, all ranks together; `number` is in its name. [all ranks; blocks; may fail]
  static Result<Lane> open(Device& device, Communicator& from, uint32_t number);
  // Makes routes through groups of ranks, and measures them unless `options` has costs. [all ranks; blocks; may fail]
  Status group(HierarchyOptions options);
  // Whether sums of gradients can go there. [any-thread; does not block; cannot fail]
  bool goes(Route route) const noexcept;
};

// What every rank brings, in the order of ranks. [all ranks; blocks; may fail]
Result<std::vector<uint64_t>> everyones(Device& device, Lane& lane, std::span<const uint64_t> own);
// The greatest of each number over all ranks, in place. [all ranks; blocks; may fail]
Status greatest(Device& device, Lane& lane, std::span<double> numbers);
// What `root` has in `text`, which takes `bytes` there. [all ranks; blocks; may fail]
Result<std::string> from_root(Device& device, Lane& lane, std::string text, uint64_t bytes, uint32_t root);

}  // namespace tenon::overlap
