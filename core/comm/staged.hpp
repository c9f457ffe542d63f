// SPDX-License-Identifier: Apache-2.0
// staged.hpp: a communicator for a device whose plugin has none: bytes go to host memory, another plugin's communicator
// works on them there, and results come back; all in the order of the caller's stream.
//
// Invariant: the caller's stream waits for the carrier's work before it reads what that work wrote, so a failure there is
// the stream's; staging memory is not used again before both streams are done with it.
#pragma once

#include "comm/comm_state.hpp"
#include "comm/turn.hpp"

#include <tenon/buffer.hpp>
#include <tenon/device.hpp>

#include <mutex>
#include <vector>

namespace tenon::comm {

class Staged final : public detail::CommState {
 public:
  // As Communicator::create. TN_UNSUPPORTED when no loaded plugin can carry it. [all ranks; blocks; may fail]
  static Result<std::shared_ptr<CommState>> join(const std::shared_ptr<detail::DeviceState>& device,
                                                 const Store& store, uint32_t rank, uint32_t size,
                                                 CommOptions options);
  // The same for `device` over `carrying`, which works in host memory. [any-thread; may block; may fail]
  static Result<std::shared_ptr<CommState>> over(const std::shared_ptr<detail::DeviceState>& device,
                                                 std::shared_ptr<CommState> carrying);
  using CommState::CommState;

  Status submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) override;
  Status abort() override { return carrying_->abort(); }
  Status give_up() override { return carrying_->give_up(); }
  Status health() override { return carrying_->health(); }
  Status destroy(Timeout timeout) override;
  Result<std::shared_ptr<CommState>> part(std::span<const uint32_t> members,
                                          const std::string& called) override;

  // What works in host memory.
  const std::shared_ptr<CommState>& carrying() const noexcept { return carrying_; }

 private:
  // Host memory as both sides see it.
  struct Room {
    Buffer memory{};
    tn_span staged{};   // for copies of the caller's stream
    tn_span carried{};  // for the carrier's operations
  };
  // One copy between the device and the host.
  struct Travel {
    tn_span device{}, host{};
  };
  // A group on its way: what goes down, the operations there, what comes up.
  struct Journey {
    std::vector<Room> rooms{};
    std::vector<Travel> down{}, up{};
    std::vector<CommOp> ops{};
  };

  Result<Room> make_room(Stream& stream, uint64_t bytes);
  Status pack(Stream& stream, const CommOp& op, Journey& out);
  Result<tn_span> stage(Stream& stream, const tn_span& span, bool down, bool up, Journey& out);
  Status travel(Stream& stream, Journey& journey, std::optional<Route> route);

  Stream line_;                          // the carrier's
  std::shared_ptr<CommState> carrying_;  // ends before its stream
  Turn turn_{};
  std::mutex mutex_;     // one group at a time is put onto the carrier's stream
  bool pinned_ = false;  // staging lies in the device's host memory, else in the carrier's
};

}  // namespace tenon::comm
