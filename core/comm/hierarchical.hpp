// SPDX-License-Identifier: Apache-2.0
// hierarchical.hpp: a communicator of communicators: all ranks, this rank's group, the leaders, the ranks with its shard.
//
// Messages of a group with routed operations go on a stream of their own: a peer may get to its side of them before or after.
// Invariant: all of them end together (watch.hpp). On every rank they are made and submitted to in one order, so no two ranks
// wait for each other in different ones.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/grouping.hpp"
#include "comm/legs.hpp"
#include "comm/turn.hpp"
#include "comm/watch.hpp"
#include "runtime/timeline.hpp"

#include <atomic>

namespace tenon::comm {

class Hierarchical final : public detail::CommState, public runtime::Witness {
 public:
  // Makes what the routes of `state` need. [all ranks; blocks; may fail]
  static Result<std::shared_ptr<Hierarchical>> over(std::shared_ptr<CommState> flat,
                                                    std::shared_ptr<Hierarchy::State> state);
  Hierarchical(std::shared_ptr<CommState> flat, std::shared_ptr<Hierarchy::State> state);
  ~Hierarchical() override;

  Status submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) override;
  Status abort() override;
  Status give_up() override { return abort(); }
  Status health() override;
  Status destroy(Timeout timeout) override;
  Result<std::shared_ptr<CommState>> part(std::span<const uint32_t> members,
                                          const std::string& called) override;
  bool settled(Error& failure) noexcept override;

 private:
  Status gather();
  void call_witness(Stream& stream);
  Status walk(Stream& stream, const Legs& legs, bool& midway);
  Status check(const CommOp& op) const;
  Status failed(Status why, bool midway);

  // For messages beside routed operations, made when there are some; ends after what was put there.
  Stream aside_{};
  const std::shared_ptr<CommState> flat_;
  const std::shared_ptr<const Hierarchy::State> state_;
  std::shared_ptr<CommState> group_, leaders_, shards_;  // null where this rank has no part
  Seat seat_;
  Turn turn_{};
  std::atomic<bool> gone_{false};
  Watch watch_;
};

}  // namespace tenon::comm
