// SPDX-License-Identifier: Apache-2.0
// native.hpp: a communicator that the device's own plugin makes.
//
// Invariant: the plugin's handle is destroyed once.
#pragma once

#include "comm/abort_relay.hpp"
#include "comm/claim.hpp"
#include "comm/comm_state.hpp"
#include "comm/flight.hpp"
#include "runtime/timeline.hpp"

#include <atomic>
#include <shared_mutex>

namespace tenon::comm {

class Native final : public detail::CommState, public runtime::Witness {
 public:
  // As Communicator::create. [all ranks; blocks; may fail]
  static Result<std::shared_ptr<CommState>> join(const std::shared_ptr<detail::DeviceState>& device,
                                                 const Store& store, uint32_t rank, uint32_t size,
                                                 CommOptions options);
  using CommState::CommState;
  ~Native() override;

  Status submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) override;
  Status abort() override;
  Status give_up() override;
  Status health() override;
  Status destroy(Timeout timeout) override;
  Result<std::shared_ptr<CommState>> part(std::span<const uint32_t> members,
                                          const std::string& called) override;
  bool settled(Error& failure) noexcept override;

 private:
  Status create(const std::string& id);
  Result<std::string> make_id();
  Result<std::string> agree_on_id();
  Claimant claimant() const;
  Status enter();
  void attend(runtime::Timeline& line);
  Status reason(Status why) const;
  bool ended(const Error& failure) noexcept;
  // An end, with its cause where that is known.
  Status named(Status said) const;
  // TN_INVALID once it was destroyed.
  Result<tn_comm*> living() const;
  // What a function of the table says of the handle, which is not destroyed meanwhile.
  Status asked(int32_t (*ask)(tn_comm*, tn_error*));

  std::weak_ptr<runtime::Witness> self_{};  // kept, so that a submit counts nothing
  const tn_comm_api* api_ = nullptr;
  std::atomic<tn_comm*> handle_{nullptr};
  Flight::Which which_;        // a part is counted with its whole
  std::string doubt_;          // claim.hpp
  std::shared_mutex leaving_;  // shared while the handle is asked, so that it is not destroyed then
  Flight flight_;
  std::optional<AbortRelay> relay_{};  // where there are others; once it stands
};

}  // namespace tenon::comm
