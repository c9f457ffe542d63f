// SPDX-License-Identifier: Apache-2.0
// comm.hpp: one rank of a communicator: groups on their way from a lane to the hub, and results on their way back.
//
// A group is a command of its stream's lane. When the lane comes to it, what it sends is taken along; the lane then stands still
// until the hub has answered, while the scheduler goes on with the others.
// Invariant: groups run one at a time in the order of their submits, and every one that was submitted is counted, run or not.
#pragma once

#include "comm/fabric.hpp"
#include "stream.hpp"

#include <tenon/comm.h>

namespace tenon::sim {

class Comm final : comm::Ear {
 public:
  struct Ticket {
    comm::Place place{};
    uint32_t rank = 0, size = 1;
    uint64_t timeout_ns = 0;
    std::string name{};
  };
  // TN_TIMEOUT names who is missing; unless `non_blocking` all have come. [any-thread; blocks unless non_blocking; may fail]
  static Result<std::unique_ptr<Comm>> create(comm::Fabric& fabric, Scheduler& scheduler, Ticket ticket,
                                              bool non_blocking);
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;
  ~Comm();

  void limits(tn_comm_limits& out) const;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops);
  Status abort();
  Status health();
  // Sees the groups out. Those that have not ended by then are aborted: TN_ABORTED.
  Status finish(uint64_t timeout_ns);

 private:
  // One operation, and where its two sides lie on the device.
  struct Item {
    comm::Part part{};
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    uint64_t send_bytes = 0, recv_bytes = 0;
  };
  struct Group {
    std::vector<Item> items{};
    std::shared_ptr<Lane> lane{};
  };

  Comm(comm::Fabric& fabric, Scheduler& scheduler, Ticket ticket);
  Status join(bool non_blocking);
  Result<Item> item_of(const Stream& stream, const tn_comm_op& op, uint32_t index) const;
  Status begin(const std::shared_ptr<Group>& group);
  void deliver(const comm::Frame& frame);
  void fail(Error why);
  void end_group(const Status& said);
  bool seen_out(uint64_t timeout_ns);

  // What the fabric says, with its mutex held.
  void hear(const comm::Frame& frame) override;
  void cut_off() override;
  void look(uint64_t now_ns) override;
  uint64_t due() const noexcept override { return due_ns_; }

  comm::Fabric& fabric_;
  Scheduler& scheduler_;
  const Ticket ticket_;

  // Guarded by the fabric's mutex.
  bool attached_ = false, stands_ = false;
  std::optional<Error> failure_{};
  std::string missing_{}, hub_ranks_{};
  std::shared_ptr<Group> under_way_{};
  uint64_t due_ns_ = UINT64_MAX;

  std::atomic<bool> passed_over_{false};
  uint64_t goodbye_ns_ = 1'000'000'000;  // how long it may take to leave
  uint64_t submitted_ = 0;               // the submitting thread's
  std::shared_ptr<std::atomic<uint64_t>> ended_ = std::make_shared<std::atomic<uint64_t>>(0);
};

}  // namespace tenon::sim
