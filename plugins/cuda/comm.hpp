// SPDX-License-Identifier: Apache-2.0
// comm.hpp: one rank of a communicator as the host holds it, from the call that joins on: who carries it, and how it comes to stand.
//
// With a store, and an id whose maker has NCCL, the ranks meet first (comm/meeting.hpp) and all choose alike: threads of one process,
// or NCCL. Without, they are threads of one process. A NON_BLOCKING create meets on a thread of this communicator.
// Invariant: there is a member or a reason why there is none, or it is being made.
#pragma once

#include "comm/member.hpp"
#include "comm/place.hpp"

#include <condition_variable>
#include <thread>

namespace tenon::cuda {

// What communicators of a device are made with; it outlives them.
struct CommTools {
  const char* library;  // the option `nccl`, or nullptr
  comm::Wishes wishes;
};

class Comm {
 public:
  // [any-thread; blocks unless NON_BLOCKING; may fail]
  static Result<std::unique_ptr<Comm>> create(const comm::Place& place, comm::Ticket ticket,
                                              const CommTools& tools, const tn_comm_options& options);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  // Until it stands, what all who may carry it take.
  void limits(tn_comm_limits& out) const;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops);
  Result<std::unique_ptr<Comm>> split(int32_t color, int32_t key, const tn_comm_options& options);
  Status abort();
  Status health();
  Status finish(uint64_t timeout_ns);

 private:
  Comm(const comm::Place& place, comm::Ticket ticket, const CommTools& tools)
      : place_(place), ticket_(std::move(ticket)), tools_(tools) {}

  using Made = Result<std::unique_ptr<comm::Member>>;
  Made meet(const tn_store& store, bool deterministic);
  void settle(Made made);
  // TN_BUSY, or why there is none. [any-thread; does not block; may fail]
  Result<comm::Member*> member() const;

  const comm::Place place_;
  const comm::Ticket ticket_;
  const CommTools tools_;
  std::atomic<bool> called_off_{false};
  mutable std::mutex mutex_;  // of what follows
  std::unique_ptr<comm::Member> member_{};
  std::optional<Error> failure_{};
  std::thread joiner_;
};

}  // namespace tenon::cuda
