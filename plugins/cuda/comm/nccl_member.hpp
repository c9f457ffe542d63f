// SPDX-License-Identifier: Apache-2.0
// nccl_member.hpp: one rank of a communicator that NCCL carries: groups in order, what ends them before their time, how it is left.
//
// A submit enqueues one group and looks until NCCL has launched it, with the order of its device's groups in hand. A thread watches
// while groups are on their way: for errors that NCCL noticed, and for a group that began and makes no end. Whatever ends the
// communicator fails the groups on their way at once; that thread then aborts it.
// Invariant: the first failure stays. Its mutex is never held while somebody sleeps or NCCL is called.
#pragma once

#include "errand.hpp"
#include "nccl_handle.hpp"
#include "part.hpp"

#include <condition_variable>
#include <thread>

namespace tenon::cuda::comm {

class NcclMember final : public Member {
 public:
  NcclMember(std::shared_ptr<NcclHandle> handle, Ticket ticket);
  ~NcclMember() override;

  void limits(tn_comm_limits& out) const override;
  Status submit(Stream& stream, std::span<const tn_comm_op> ops) override;
  Result<std::unique_ptr<Member>> split(int32_t color, int32_t key, const tn_comm_options& options) override;
  Status abort() override;
  Status health() override;
  Status finish(uint64_t timeout_ns) override;

 private:
  using Clock = std::chrono::steady_clock;
  // A group on its way.
  struct Flight {
    std::shared_ptr<Fate> fate{};
    EventRef began{}, ended{};  // no `ended` yet: it is being launched
    std::optional<Clock::time_point> since{};
  };
  // The newest group of a capture; others of it come after.
  struct CaptureEnd {
    std::weak_ptr<Capturing> capture{};
    EventRef end{};
  };

  Result<std::vector<Part>> parts_of(std::span<const tn_comm_op> ops) const;
  Result<std::vector<Memory*>> to_enroll(std::span<const tn_comm_op> ops, bool captured) const;
  Status enroll(std::span<Memory* const> memories);
  Status enroll_window(Memory& memory);
  Status set_aside(std::vector<Part>& parts, const Strand& strand, bool captured);
  Status follow_earlier(const Strand& strand, const std::shared_ptr<Capturing>& capture);
  Status take_off(const Strand& strand, const Stream::Lent& lent, Stream& stream);
  Status land(const Strand& strand, const std::shared_ptr<Capturing>& capture);
  Status launch(const std::vector<Part>& parts, CUstream stream);
  void fail(Error why);
  void tidy();
  void look();
  void watch();
  bool torn_down(uint64_t timeout_ns);
  Status call_off(uint64_t timeout_ns);

  std::shared_ptr<NcclHandle> handle_;
  const Ticket ticket_;
  Aside aside_;
  EventRef end_{};  // of the newest group
  CaptureEnd capture_end_{};
  std::mutex mutex_;  // of what follows
  std::condition_variable watched_, changed_;
  std::deque<Flight> flights_{};
  std::shared_ptr<Fate> whole_ = std::make_shared<Fate>();  // of all that was captured
  std::optional<Error> failure_{};
  bool captured_ = false, leaving_ = false, torn_down_ = false;
  std::thread watch_;
};

}  // namespace tenon::cuda::comm
