// SPDX-License-Identifier: Apache-2.0
// member.hpp: one rank's part in a communicator that stands, whoever carries it: threads of a process, or NCCL.
//
// Invariant: `abort` and `health` may be called by any thread at any time, and wait for nobody.
#pragma once

#include "../stream.hpp"
#include "presence.hpp"

#include <tenon/comm.h>

#include <algorithm>
#include <atomic>
#include <chrono>

namespace tenon::cuda::comm {

// What the options `comm` and `register` ask for.
struct Wishes {
  bool prefers_nccl = false;
  Enrolling enrolling = Enrolling::none;
};

// Who joins what.
struct Ticket {
  uint32_t rank = 0, size = 1;
  uint64_t timeout_ns = 0;
  std::string name{};
  std::shared_ptr<Gpu> gpu{};
  Enrolling enrolling = Enrolling::none;  // by NCCL
};
inline constexpr uint64_t default_timeout_ns = 30'000'000'000;

// Until when somebody waits, and whether he still does.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Patience(uint64_t timeout_ns, const std::atomic<bool>* called_off = nullptr)
      : due_(Clock::now() + std::chrono::nanoseconds(std::min(timeout_ns, longest))),
        called_off_(called_off) {}
  bool over() const noexcept { return Clock::now() >= due_; }
  bool called_off() const noexcept { return called_off_ != nullptr && called_off_->load(); }

 private:
  static constexpr uint64_t longest = uint64_t{1} << 60;

  Clock::time_point due_;
  const std::atomic<bool>* called_off_;
};

class Member {
 public:
  Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
  virtual ~Member() = default;

  virtual void limits(tn_comm_limits& out) const = 0;
  virtual Status submit(Stream& stream, std::span<const tn_comm_op> ops) = 0;
  // Empty for a negative color.
  virtual Result<std::unique_ptr<Member>> split(int32_t color, int32_t key,
                                                const tn_comm_options& options) = 0;
  virtual Status abort() = 0;
  virtual Status health() = 0;
  // Sees the groups out. Those that have not ended by then are called off: TN_ABORTED; TN_TIMEOUT when the teardown does not
  // end.
  virtual Status finish(uint64_t timeout_ns) = 0;
};

}  // namespace tenon::cuda::comm
