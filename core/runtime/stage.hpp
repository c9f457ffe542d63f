// SPDX-License-Identifier: Apache-2.0
// stage.hpp: copies between devices whose plugins cannot reach each other's memory.
//
// Invariant: a carried copy has the stream's order: what it reads is complete before, what it writes is there on return.
#pragma once

#include "runtime/timeline.hpp"

namespace tenon::runtime {

// One side of a copy as its stream's plugin may see it.
struct Side {
  tn_span span{};
  std::shared_ptr<detail::DeviceState> foreign;  // set: only this device's plugin reaches the bytes
  bool rehoused = false;                         // `span` is the host address of another device's memory
};

// How `line`'s plugin reaches `span`. [any-thread; may block; may fail]
Result<Side> side_of(Timeline& line, const tn_span& span);
// Copies through host memory; one side at least is foreign. [stream's thread; blocks; may fail]
Status carry_bytes(Stream& stream, const Side& destination, const Side& source);

// TN_INVALID where `span` is memory of another device, which work on `line` does not reach; `what` it is begins the message. Only
// where the process has several_devices() it can be. [any-thread; may block; may fail]
Status check_home(const Timeline& line, const tn_span& span, std::string_view what);

}  // namespace tenon::runtime
