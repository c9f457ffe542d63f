// SPDX-License-Identifier: Apache-2.0
// hazards.hpp: finds two uses of the same bytes, one of them a write, that nothing orders.
//
// Every stream has a clock: the number of its own operations and, per other stream, how many of that one's its waits
// imported. A value is a moment on such a clock; what the host saw reached is over for everyone. For each range of bytes
// the last write and the reads since are kept; a new use must come after those it conflicts with.
// Invariant: no false finding. An operation behind a promise that is not kept yet is not judged, since what the promise
// stands for is unknown.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace tenon::layers {

struct Range {
  uint64_t begin = 0, end = 0;
};

// A use of bytes: `region` is a memory or an address space, by number.
struct Access {
  uint64_t region = 0;
  Range bytes{};
  bool write = false;
  bool kept = true;  // false: a read that is over when the call returns
};

// What was enqueued, for messages.
struct Operation {
  uint64_t call = 0;
  std::string name;    // "launch 'add3'"
  std::string stream;  // "stream 'a'"
};
using OperationRef = std::shared_ptr<const Operation>;

struct Conflict {
  OperationRef earlier;
  Access earlier_use, later_use;
};

class Hazards {
 public:
  using Slot = uint32_t;

  // What is imported from other streams: shared, never changed.
  struct Past {
    std::vector<uint64_t> clock;  // by slot
    std::vector<std::pair<Slot, uint64_t>> promises;
  };
  // A place on a stream's clock.
  struct Moment {
    Slot slot = 0;
    uint64_t count = 0;
    std::shared_ptr<const Past> past;
  };

  // All functions: [any-thread; does not block; cannot fail], one stream by one thread at a time.

  Slot add_stream();
  // Everything on it is over; the slot may serve another stream.
  void remove_stream(Slot slot);

  // `value` is reached when all that was enqueued so far has finished.
  void recorded(Slot slot, uint64_t value);
  // Later operations of `slot` come after `value` of `other`.
  void waited(Slot slot, Slot other, uint64_t value);
  // The host saw `value` reached.
  void reached(Slot slot, uint64_t value);
  void promised(Slot slot, uint64_t value);
  void signalled(Slot slot, uint64_t value);
  // Whether `value` was promised and is not kept yet.
  bool promise_open(Slot slot, uint64_t value) const;
  // The newest value recorded or promised.
  uint64_t newest(Slot slot) const;

  // The same with moments, for what orders streams without values: communicators, host calls.
  Moment now(Slot slot) const;
  void waited(Slot slot, const Moment& moment);
  void over(const Moment& moment);

  // Enters an operation and its uses; returns one conflict per earlier operation and region.
  std::vector<Conflict> run(Slot slot, const OperationRef& operation, std::span<const Access> uses);
  // An operation that uses `region` and is not known to be over, or null.
  OperationRef in_flight(uint64_t region) const;
  void forget(uint64_t region);
  // How many ranges of `region` are remembered.
  size_t cells(uint64_t region) const;

 private:
  struct Touch {
    Slot slot = 0;
    uint64_t count = 0;
    bool unjudged = false;
    Access use{};
    OperationRef operation;  // null: nobody
  };
  struct Cell {
    uint64_t end = 0;
    Touch write;
    std::vector<Touch> reads;  // at most one per stream
  };
  using Cells = std::map<uint64_t, Cell>;  // by begin; disjoint
  struct Region {
    Cells cells;
    size_t sweep_at = 64;
  };
  struct Timeline {
    bool used = false;
    uint64_t count = 0;
    uint64_t newest = 0;
    std::shared_ptr<const Past> past;
    std::map<uint64_t, Moment> values;  // from the newest reached one on
    std::set<uint64_t> promises;        // those not kept
  };

  void import(Timeline& timeline, const Moment& moment);
  void settle_promises(Timeline& timeline);
  void finish(const Moment& moment);
  bool over(const Touch& touch) const;
  bool ordered(const Touch& before, Slot slot) const;
  void meet(const Touch& before, const Touch& now, std::vector<Conflict>& conflicts) const;
  void read(Region& region, const Touch& touch, std::vector<Conflict>& conflicts);
  void write(Region& region, const Touch& touch, std::vector<Conflict>& conflicts);
  void sweep(Region& region) const;

  mutable std::mutex mutex_;
  std::vector<Timeline> timelines_;
  std::vector<uint64_t> over_;  // by slot: how many operations are known to be finished
  std::unordered_map<uint64_t, Region> regions_;
};

}  // namespace tenon::layers
