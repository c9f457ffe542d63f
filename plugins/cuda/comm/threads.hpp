// SPDX-License-Identifier: Apache-2.0
// threads.hpp: one rank of a communicator whose ranks are threads of this process: from a group to what its stream does.
//
// A submit brings the group to the room where the ranks meet, and enqueues all of it at once: the stream says that it is ready,
// waits for the others' streams by words in pinned memory, moves or reduces this rank's share, says so, and waits until the
// others have done theirs. Kernels learn where the others' memory lies when they run, so no submit waits for another rank.
// Invariant: groups run in the order of their submits, on whatever stream; memory is touched by another rank only between
// this rank's "ready" and the end of its group.
#pragma once

#include "errand.hpp"
#include "intake.hpp"
#include "place.hpp"
#include "room.hpp"

namespace tenon::cuda::comm {

class Threads final : public Member {
 public:
  // What tells of ranks that cannot come, asked now and then.
  using Elsewhere = std::function<std::optional<std::string>()>;

  // Loads the reductions, takes its seat, and waits for the others unless `waits` is false. [any-thread; blocks if it waits; may fail]
  static Result<std::unique_ptr<Member>> join(const Place& place, Ticket ticket, bool waits,
                                              const Elsewhere& elsewhere);
  ~Threads() override;

  void limits(tn_comm_limits& out) const override;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops) override;
  Result<std::unique_ptr<Member>> split(int32_t color, int32_t key, const tn_comm_options& options) override;
  Status abort() override;
  Status health() override { return room_->health(ticket_.rank); }
  Status finish(uint64_t timeout_ns) override;

 private:
  Threads(std::shared_ptr<Room> room, Ticket ticket)
      : room_(std::move(room)), ticket_(std::move(ticket)), side_(ticket_.gpu), aside_(ticket_.gpu) {}

  Result<uint64_t> reach(const tn_span& span, uint32_t index, const char* what);
  Result<CUfunction> function_for(const Part& part) const;
  Status wait_for_room(const std::vector<Part>& parts);
  Status set_aside(Errand& errand);
  void leave();

  const std::shared_ptr<Room> room_;
  const Ticket ticket_;
  Strands side_;
  Aside aside_;
  EventRef end_{};  // of the newest group
  bool seated_ = false;
};

}  // namespace tenon::cuda::comm
