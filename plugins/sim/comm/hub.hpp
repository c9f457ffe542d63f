// SPDX-License-Identifier: Apache-2.0
// hub.hpp: where the groups of one communicator meet: who has come, what fits together, who gets what, and what is wrong.
//
// The hub lives in the process that made the id; a rank has one group with it at a time. It moves no bytes itself: what it
// says goes through `tell`.
// Invariant: once it has failed every rank is told the same, once, and nothing is carried any more.
#pragma once

#include "wire.hpp"

#include <functional>
#include <map>

namespace tenon::sim::comm {

class Hub {
 public:
  using Tell = std::function<void(uint64_t rank, const Frame& frame)>;
  // `process`: the one that the hub lives in, and ends with.
  Hub(uint64_t process, Tell tell) : process_(process), tell_(std::move(tell)) {}

  // A rank comes. The first says how many there are; when all have come all are welcome. What is wrong with it, for it alone:
  // TN_INVALID for a rank that is taken, TN_MISMATCH for another size, what the hub failed with.
  Status enter(const Hello& hello);
  // What a rank brings; results follow, or a failure of all.
  void bring(uint64_t rank, std::vector<Part> group, uint64_t now_ns);
  // A rank goes: in good order, or without a word, for a reason that the others are told.
  void leave(uint64_t rank);
  void lose(uint64_t rank, std::string_view why = "its process has ended, or closed its connection");
  void fail(const Error& why);

  // When somebody has waited long enough; UINT64_MAX: never.
  uint64_t due() const noexcept;
  // Fails if that was before `now`.
  void look(uint64_t now_ns);
  bool stands() const noexcept { return stands_; }
  bool failed() const noexcept { return failure_.has_value(); }

 private:
  // One operation on its way.
  struct Pending {
    Part part{};
    Bytes result{};
    bool done = false;
  };
  struct Seat {
    Hello hello{};
    bool here = true;
    std::vector<Pending> group{};
    uint64_t due_ns = UINT64_MAX;
    bool waits() const noexcept { return due_ns != UINT64_MAX; }
  };

  std::string missing() const;
  std::string neighbours() const;
  void settle();
  bool settle_collective();
  bool settle_messages(uint64_t rank);
  void answer();
  // The first collective of a rank's group that is not done.
  Pending* front(Seat& seat) const;
  std::string absent_for(const Seat& seat) const;

  uint64_t process_;
  Tell tell_;
  std::map<uint64_t, Seat> seats_{};  // by rank
  uint64_t size_ = 0;
  bool stands_ = false;
  std::optional<Error> failure_{};
};

}  // namespace tenon::sim::comm
