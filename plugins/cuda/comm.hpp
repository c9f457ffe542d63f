// SPDX-License-Identifier: Apache-2.0
// comm.hpp: one rank of a communicator whose ranks are threads of this process: from a group to what its stream does.
//
// A submit brings the group to the room where the ranks meet, and enqueues all of it at once: the stream says that it is ready,
// waits for the others' streams by words in pinned memory, moves or reduces this rank's share, says so, and waits until the
// others have done theirs. Kernels learn where the others' memory lies when they run, so no submit waits for another rank.
// Invariant: groups run in the order of their submits, on whatever stream; memory is touched by another rank only between
// this rank's "ready" and the end of its group.
#pragma once

#include "comm/code.hpp"
#include "comm/errand.hpp"
#include "comm/place.hpp"
#include "comm/room.hpp"
#include "stream.hpp"

namespace tenon::cuda {

class Comm {
 public:
  // Takes its seat, and waits for the others unless NON_BLOCKING. [any-thread; blocks unless NON_BLOCKING; may fail]
  static Result<std::unique_ptr<Comm>> create(const comm::Place& place, comm::Ticket ticket,
                                              const Compiler& compiler, const tn_comm_options& options);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  void limits(tn_comm_limits& out) const;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops);
  Result<std::unique_ptr<Comm>> split(int32_t color, int32_t key, const tn_comm_options& options);
  Status abort();
  Status health() { return room_->health(ticket_.rank); }
  // Sees the groups out. Those that have not ended by then are called off: TN_ABORTED; TN_TIMEOUT when their streams are held
  // up by something else.
  Status finish(uint64_t timeout_ns);

 private:
  Comm(std::shared_ptr<comm::Room> room, comm::Ticket ticket, const Compiler& compiler)
      : room_(std::move(room)),
        ticket_(std::move(ticket)),
        compiler_(compiler),
        side_(ticket_.gpu),
        aside_(ticket_.gpu) {}

  Result<comm::Part> part_of(const tn_comm_op& op, uint32_t index);
  Status add_factor(const tn_comm_op& op, uint32_t index, comm::Part& part);
  Result<uint64_t> reach(const tn_span& span, uint64_t multiple, uint32_t index, const char* what);
  Result<CUfunction> function_for(const comm::Part& part);
  Status wait_for_room(const std::vector<comm::Part>& parts);
  Status set_aside(comm::Errand& errand);
  bool seen_out(uint64_t timeout_ns) const;
  void leave();

  const std::shared_ptr<comm::Room> room_;
  const comm::Ticket ticket_;
  const Compiler& compiler_;
  std::map<std::pair<uint32_t, uint32_t>, CUfunction> reductions_{};  // by type and reduction
  comm::Strands side_;
  comm::Aside aside_;
  EventRef end_{};  // of the newest group
  bool seated_ = false;
};

}  // namespace tenon::cuda
