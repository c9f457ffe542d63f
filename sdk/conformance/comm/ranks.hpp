// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: ranks of one case, as threads of this process or as processes of their own.
//
// Processes run the same case as their parent, with the same random numbers, and come to the same body: so a case draws
// what it needs before the ranks start. In a process that plays a rank, meetings that are not its own do nothing.
// Invariant: when a meeting is over no rank is left; the story told is that of the first rank whose failure is its own
// and not another's that reached it.
#pragma once

#include "conformance/comm/communicator.hpp"
#include "conformance/comm/store.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>

namespace tenon::conform {

// Where ranks that are threads wait for each other on the host, beside what the plugin does.
class Together {
 public:
  explicit Together(uint32_t size, uint64_t patience_ns) : left_(size), patience_ns_(patience_ns) {}
  // Waits for all; true when every rank came in time and all said `good`. [a rank's thread; blocks]
  bool meet(bool good);
  // One rank less to wait for; where it is not `good`, or the others wait already, they are let go. [a rank's thread]
  void leave(bool good);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint32_t left_, come_ = 0;
  uint64_t round_ = 0, patience_ns_;
  bool good_ = true, verdict_ = true, broken_ = false;
};

// One rank, as its body sees it.
struct Rank {
  Context& t;
  const Device& device;
  const FolderStore& store;
  uint32_t rank, size;
  Together* together;  // null where ranks are processes
  Stream stream{};
  Communicator comm{};

  // Another communicator of the same ranks. `name` is new to the meeting. [this rank's thread; blocks; may fail]
  Result<Communicator> join(const std::string& name, const CommForm& form = {}) const;
  // Waits for the other threads; TN_ABORTED where one of them has failed. Does nothing where ranks are processes.
  // [this rank's thread; blocks; may fail]
  Status meet() const;
  // The same, after `mine`: this rank's own failure first. [this rank's thread; blocks; may fail]
  Status agree(Status mine) const;
  // Tells the communicator and the stream that whatever ends them is expected.
  void forgive() {
    comm.forgive();
    stream.forgive();
  }
};

using Body = std::function<Status(Rank& rank)>;
// Runs on the case's thread while ranks are at work, once all have joined.
using RankWatch = std::function<void(std::span<Rank* const> ranks)>;

// How many devices the plugin counts. [case's thread; may fail]
Result<uint32_t> device_count(Context& t);
// Runs `body` on `size` threads that have joined one communicator. Where the plugin counts as many devices from the one
// under test on, each rank has its own; otherwise all share that one. Leaves the case as unsupported where the plugin
// refuses such a communicator. [case's thread; blocks; may fail]
Status as_threads(Context& t, uint32_t size, const Body& body, const CommForm& form = {},
                  const RankWatch& watch = {});
// Runs `body` in `size` processes; `dies` is the rank that must end by SIGKILL. [case's thread; blocks; may fail]
Status as_processes(Context& t, uint32_t size, const Body& body, const CommForm& form = {},
                    std::optional<uint32_t> dies = {});

}  // namespace tenon::conform
