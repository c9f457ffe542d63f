// SPDX-License-Identifier: Apache-2.0
// comm_state.hpp: one communicator as its copies share it.
//
// Invariant: the plugin's handle is destroyed once, before the device and the store that it was made from are let go.
#pragma once

#include "comm/store.hpp"
#include "runtime/device_state.hpp"

#include <atomic>

namespace tenon::detail {

struct CommState {
  CommState(std::shared_ptr<DeviceState> on, Store at) : device(std::move(on)), store(std::move(at)) {}
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;
  ~CommState();

  // TN_INVALID once it was destroyed.
  Result<tn_comm*> living() const;

  std::shared_ptr<DeviceState> device;
  Store store;
  const tn_comm_api* api = nullptr;
  std::atomic<tn_comm*> handle{nullptr};
  uint32_t rank = 0, size = 1;
  CommOptions options{};
  tn_comm_limits limits{};
  uint64_t splits = 0;
};

}  // namespace tenon::detail
