// SPDX-License-Identifier: Apache-2.0
// hierarchy.hpp: all-reduce in groups of ranks that are near each other, and between the groups.
//
//   auto world = TN_TRY(tenon::Communicator::create(device, store, rank, size));
//   auto hierarchy = TN_TRY(tenon::Hierarchy::create(world));  // groups by host; measures the routes
//   hierarchy.communicator().all_reduce(stream, gradients, gradients, tenon::f32);  // the cheapest for its size
//
//   flat      all ranks at once, on `world`
//   leaders   each group reduces to its leader; the leaders all-reduce; each leader broadcasts
//   sharded   each group reduce-scatters; ranks with the same shard all-reduce it; each group all-gathers
//
// Invariant: the route of an operation follows from what is the same on all ranks (the operation, the options, the costs),
// so all ranks choose the same. When one communicator inside ends, all of them end, on all ranks, with one cause.
#pragma once

#include <tenon/comm.hpp>
#include <tenon/overlap.hpp>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tenon {

// Where a rank is.
struct Placement {
  std::string host{};      // its name
  std::string boot{};      // tells hosts of one name apart; empty: unknown
  int32_t numa_node = -1;  // the device's; -1: unknown
  std::string device{};    // "cpu:0"
  std::string group{};     // HierarchyOptions::group
  friend bool operator==(const Placement&, const Placement&) = default;
};

struct HierarchyOptions {
  // Ranks of a group, neighbours by number; it divides the number of ranks. 0: by `group`.
  uint32_t hierarchical_allreduce_inter_nranks = 0;
  std::string group{};              // this rank's; ranks of one text form a group. Empty: the host
  std::vector<uint32_t> leaders{};  // one of each group, in any order; empty: the lowest rank of each
  std::optional<Route>
      route{};  // of every all-reduce that can go there; none: the cheapest by `costs`, and `sharded` where
                // `leaders` is less than a twentieth cheaper
  // Each route at most once, the same on all ranks, as for planning; empty: measured at creation.
  std::vector<CommTarget::Measured> costs{};
  uint64_t measured_bytes = 4u << 20;  // the largest all-reduce that is measured; past it, lines go on
};

// A communicator of groups; copies name the same one. What its methods give lives as long as one of the copies.
class TN_API Hierarchy {
 public:
  // An option that could not take effect, or did so in another way.
  using Note = CommPlan::Note;

  Hierarchy() noexcept = default;
  explicit operator bool() const noexcept { return static_cast<bool>(whole_); }

  // Groups the ranks of `world` and makes what each route needs. `world` carries the flat route from then on, and ends with
  // the hierarchy when that fails; submits to it directly are legal, in the one order of all ranks. TN_INVALID naming the
  // option: a group size that does not divide, leaders that are not one of each group; otherwise as Communicator::create.
  // [all ranks, options alike but for `group`; blocks; may fail]
  static Result<Hierarchy> create(const Communicator& world, HierarchyOptions options = {});

  // All of it as one communicator: an all-reduce goes the route that is forced or the cheapest, all else goes flat; messages
  // of a group progress beside its routed operations, as in any group. Its abort and destroy are the hierarchy's; `world`
  // survives the latter, and is destroyed after it.
  Communicator& communicator() noexcept { return whole_; }
  // As Communicator::submit, with the route of this group's all-reduces; those that cannot go there go as `route_of` says.
  // [stream's thread, one submit at a time; may block; may fail]
  Status submit(Stream& stream, std::span<const CommOp> group, Route route);

  // Where `op` goes. Flat: whatever is no all-reduce, means of whole numbers (they are divided once, at the end), and with
  // CommOptions::deterministic all but whole numbers and bool, whose bits no route changes. Sharded needs groups of one size;
  // otherwise leaders. [any-thread; does not block; cannot fail]
  Route route_of(const CommOp& op) const noexcept;
  Route route_of(const CommOp& op, Route asked) const noexcept;

  // All of these: [any-thread; does not block; cannot fail]
  std::span<const Placement> placements() const noexcept;          // by rank
  std::span<const std::vector<uint32_t>> groups() const noexcept;  // the ranks of each, by their lowest
  std::span<const uint32_t> leaders() const noexcept;              // of each group
  uint32_t ranks_per_group() const noexcept;                       // 0: groups of several sizes
  std::span<const CommTarget::Measured> costs() const noexcept;    // empty: forced, or nothing to choose
  std::span<const Note> notes() const noexcept;
  // One line for a log: "16 ranks in 4 groups of 4, led by 3, 5, 10, 13; hierarchical_allreduce_inter_nranks = 4 …".
  std::string summary() const;

  struct State;

 private:
  Hierarchy(Communicator whole, std::shared_ptr<const State> state) noexcept
      : whole_(std::move(whole)), state_(std::move(state)) {}
  Communicator whole_;
  std::shared_ptr<const State> state_;
};

}  // namespace tenon
