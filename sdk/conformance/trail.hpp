// SPDX-License-Identifier: Apache-2.0
// trail.hpp: what a worker's breadcrumbs say about where it is: the other side of breadcrumb.hpp, in words.
//
// Invariant: only a call that has not come back is called in progress, and a hang is laid on a call only where that call has
// lasted for much of the time; else the words say that calls come back.
#pragma once

#include "conformance/breadcrumb.hpp"

#include <string>
#include <vector>

namespace tenon::conform {

struct Trail {
  struct Call {
    std::string what{};
    double seconds = 0;  // that it has lasted, or since it came back
  };
  std::vector<Call> inside{};  // in progress, by name
  Call last{};                 // the newest that came back; no name where none did
  uint64_t returned = 0;       // how many did
};

// What the breadcrumbs said at `now_ns` of CLOCK_MONOTONIC. [any-thread; does not block; may throw bad_alloc]
Trail trail_of(const Tracks& tracks, uint64_t now_ns);
// The trail in the file behind `descriptor`, now. [any-thread; may block; may throw bad_alloc]
Trail read_trail(int descriptor);
// The calls in progress, by name: "stream.sync, comm.submit"; "" where there is none.
std::string calls_of(const Trail& trail);
// Where a process is that died: "in stream.fill", or "in no call; the last to come back was stream.fill"; "" where no call was
// made. [any-thread; may throw bad_alloc]
std::string place_of(const Trail& trail);
// Why a process that had `seconds` is not done: which call does not return, or that all do. [any-thread; may throw bad_alloc]
std::string hang_of(const Trail& trail, double seconds);

}  // namespace tenon::conform
