// SPDX-License-Identifier: Apache-2.0
// flight.hpp: the flight record of one rank on one communicator: the last operations that it submitted, written to a file
// when the communicator fails. `tenon trace --flight` puts the files of all ranks together.
//
// Invariant: noting a group allocates nothing; a record is written once, whoever notices the failure first.
#pragma once

#include "comm/comm_state.hpp"

#include <array>
#include <atomic>
#include <mutex>
#include <string>

namespace tenon::comm {

class Flight {
 public:
  static constexpr size_t kept = 256;

  // A group that is being submitted. [stream's thread; does not block; cannot fail]
  void note(std::span<const CommOp> group) noexcept;
  // The group noted last was refused, so other ranks never see it. [stream's thread; does not block; cannot fail]
  void refused() noexcept;
  // Writes the record of `comm`, the `serial`-th of its name, which ended because of `why`, and logs where it lies. The folder
  // is TENON_FLIGHT_DIR, else tenon/flight in the user's cache folder, one for each job. [any-thread; may block; cannot fail]
  void write(const detail::CommState& comm, uint64_t serial, const Error& why) noexcept;
  // What is written. [any-thread; does not block; cannot fail]
  std::string text(const detail::CommState& comm, uint64_t serial, const Error& why) const;

 private:
  struct Operation {
    uint64_t group = 0, count = 0, at_ns = 0;
    uint32_t kind = 0, dtype = 0, reduce = 0;
    int32_t peer = -1;
  };

  mutable std::mutex mutex_;
  std::array<Operation, kept> ring_{};
  uint64_t operations_ = 0, groups_ = 0;  // noted so far
  size_t latest_ = 0;                     // operations of the last group
  std::atomic<bool> written_{false};
};

}  // namespace tenon::comm
