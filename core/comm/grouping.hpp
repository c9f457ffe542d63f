// SPDX-License-Identifier: Apache-2.0
// grouping.hpp: who is near whom, and which way an operation goes because of it.
//
// Invariant: everything here is the same on all ranks, or is not used to choose.
#pragma once

#include <tenon/hierarchy.hpp>

#include <memory>

namespace tenon {

struct Hierarchy::State {
  std::vector<Placement> placements{};
  std::vector<std::vector<uint32_t>> groups{};
  std::vector<uint32_t> leaders{};
  uint32_t ranks_per_group = 0;
  uint32_t asked_per_group = 0;
  std::vector<CommTarget::Measured> costs{};
  std::vector<Note> notes{};
  std::optional<Route> forced{};
  bool deterministic = false;
  bool by_leaders = false, by_shards = false;  // the route exists
  bool scales = false;                         // premul_sum exists, so means can be taken on the way
  uint64_t number = 0;                         // among the hierarchies over its communicator
  std::optional<uint32_t> keeper{};            // the rank that serves the store

  Route route(const tn_comm_op& op, std::optional<Route> asked) const noexcept;
};

}  // namespace tenon

namespace tenon::comm {

// Where this rank is. [any-thread; may block; cannot fail]
Placement here(const detail::DeviceState& device, std::string group);
struct Places {
  std::vector<Placement> of{};       // by rank
  std::optional<uint32_t> keeper{};  // the rank that serves the store
};
// Says `own` to all ranks of `comm` under `base` in the store, and hears theirs. TN_TIMEOUT naming who did not come, TN_PEER_LOST.
// [all ranks; blocks; may fail]
Result<Places> exchange(const Placement& own, detail::CommState& comm, const std::string& base);
// Groups and leaders of ranks at `placements`. TN_INVALID naming the option. [any-thread; does not block; may fail]
Result<std::shared_ptr<Hierarchy::State>> grouped(std::vector<Placement> placements,
                                                  const HierarchyOptions& options);

}  // namespace tenon::comm
