// SPDX-License-Identifier: Apache-2.0
// flight.hpp: the flight record of one rank on one communicator: the last operations that it submitted, written to a file
// when the communicator fails. `tenon trace --flight` puts the files of all ranks together.
//
// Invariant: noting a group allocates and locks nothing; what is read was noted whole; a record is written once, whoever notices
// the failure first.
#pragma once

#include "comm/comm_state.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <string>
#include <vector>

namespace tenon::comm {

class Flight {
 public:
  static constexpr size_t kept = 256;
  // Which communicator it is of all that leave records in one folder: of which run, and of its name there.
  struct Which {
    uint64_t serial = 0;
    std::string run{};
  };

  // `at_ns`: to the tick of the clock, which is milliseconds; what is asked is who waited for whom, and for how long.
  struct Operation {
    uint64_t group = 0, count = 0, at_ns = 0;
    uint32_t kind = 0, dtype = 0, reduce = 0;
    int32_t peer = -1;
  };
  struct Noted {
    uint64_t groups = 0, collectives = 0;
    uint64_t notes = 0;                        // changes with every note
    uint64_t accepted = 0;                     // the last group whose submit has come back
    uint64_t total = 0;                        // operations, those that are kept no more included
    std::vector<Operation> operations{};       // the last ones, oldest first
    std::vector<uint64_t> sent{}, received{};  // messages to and from each rank; empty: they were not counted
  };

  // Messages with each of `size` ranks are counted. [one thread, before the first note; does not block; may throw std::bad_alloc]
  void count_messages(uint32_t size) { messages_ = std::vector<std::atomic<uint64_t>>(2 * size_t{size}); }
  // A group that is being submitted. [stream's thread, one submit at a time; does not block; cannot fail]
  void note(std::span<const CommOp> group) noexcept;
  // The group noted last was refused, so other ranks never see it. [as `note`; does not block; cannot fail]
  void refused() noexcept;
  // The group noted last was not. [as `note`; does not block; cannot fail]
  void accepted() noexcept {
    accepted_.store(groups_.load(std::memory_order_relaxed), std::memory_order_release);
  }
  // How many groups were noted. [any-thread; does not block; cannot fail]
  uint64_t groups() const noexcept { return groups_.load(std::memory_order_relaxed); }
  // Changes with every note. [any-thread; does not block; cannot fail]
  uint64_t notes() const noexcept { return notes_.load(std::memory_order_acquire); }
  // What was noted, all of one moment. Waits for a note that is being made. [any-thread; may block; may throw std::bad_alloc]
  Noted noted() const;
  // Writes the record of `comm`, which ended because of `why`, and logs where it lies. The folder
  // is TENON_FLIGHT_DIR, else tenon/flight in the user's cache folder, one for each job. [any-thread; may block; cannot fail]
  void write(const detail::CommState& comm, const Which& which, const Error& why) noexcept;
  // What is written. Waits for a note that is being made. [any-thread; may block; cannot fail]
  std::string text(const detail::CommState& comm, const Which& which, const Error& why) const;

 private:
  using Words = std::array<uint64_t, sizeof(Operation) / sizeof(uint64_t)>;
  using Slot = std::array<std::atomic<uint64_t>, std::tuple_size_v<Words>>;
  void put(uint64_t index, const Operation& operation) noexcept;
  Operation at(uint64_t index) const noexcept;
  void count(uint32_t kind, int32_t peer, uint64_t by) noexcept;

  // Who notes makes `notes_` odd for as long as it does; who reads begins again when it was odd or has changed. Whatever a
  // reader sees of a note makes it see that `notes_` was odd, so all are stored to be released and loaded to be acquired.
  std::atomic<uint64_t> notes_{0};
  std::array<Slot, kept> ring_{};
  // Noted so far; groups with collectives are counted apart, because all ranks submit those alike.
  std::atomic<uint64_t> operations_{0}, groups_{0}, collectives_{0};
  std::vector<std::atomic<uint64_t>> messages_{};  // to each rank, then from each
  std::atomic<bool> miscounted_{false};
  std::atomic<uint64_t> accepted_{0};
  size_t latest_ = 0;  // operations of the last group; whoever notes
  bool latest_collective_ = false;
  std::atomic<bool> written_{false};
};

}  // namespace tenon::comm
