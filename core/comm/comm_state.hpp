// SPDX-License-Identifier: Apache-2.0
// comm_state.hpp: one communicator as its copies share it, whoever does the work: a plugin (native.hpp), a plugin for
// another's device (staged.hpp), or several communicators together (hierarchical.hpp).
//
// Invariant: it is ended once, before the device and the store that it was made from are let go.
#pragma once

#include "comm/store.hpp"
#include "runtime/device_state.hpp"

#include <tenon/hierarchy.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tenon::detail {

struct CommState : std::enable_shared_from_this<CommState> {
  CommState(std::shared_ptr<DeviceState> on, Store at) : device(std::move(on)), store(std::move(at)) {}
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;
  virtual ~CommState() = default;

  // As Communicator has them. `route` is for all-reduces, where there are several; none: the communicator chooses.
  virtual Status submit(Stream& stream, std::span<const CommOp> group, std::optional<Route> route) = 0;
  virtual Status abort() = 0;
  // An abort that is the consequence of another, or of a failure: the other ranks are not told of it.
  // [any-thread; may block; may fail]
  virtual Status give_up() = 0;
  virtual Status health() = 0;
  virtual Status destroy(Timeout timeout) = 0;
  // A communicator of `members`, this rank among them, in their order. Its name is this one's with `called` behind it, which
  // is no other part's. [members alone; blocks; may fail]
  virtual Result<std::shared_ptr<CommState>> part(std::span<const uint32_t> members,
                                                  const std::string& called) = 0;

  std::shared_ptr<DeviceState> device;
  Store store;
  uint32_t rank = 0, size = 1;
  CommOptions options{};
  // What its entries in the store begin with: the same on all its ranks, and no other communicator's.
  std::string key{};
  tn_comm_limits limits{};
};

}  // namespace tenon::detail

namespace tenon::comm {

// A communicator on `device`: its plugin's, or one that another plugin carries. [all ranks; blocks; may fail]
Result<std::shared_ptr<detail::CommState>> make_state(const std::shared_ptr<detail::DeviceState>& device,
                                                      const Store& store, uint32_t rank, uint32_t size,
                                                      CommOptions options);
// Whether a stream's failure with this code may be a communicator's end. [any-thread; does not block; cannot fail]
bool ends_communicators(int32_t code) noexcept;
// What follows the name of a part that was made after `before` others: "", then " (split 2)".
std::string turn(const char* what, uint64_t before);
// What a call on a communicator that was destroyed returns.
Status destroyed(const std::string& name);
// As the ABI wants it.
uint64_t nanoseconds(Timeout timeout) noexcept;

}  // namespace tenon::comm
