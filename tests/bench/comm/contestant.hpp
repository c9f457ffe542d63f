// SPDX-License-Identifier: Apache-2.0
// contestant.hpp: the ranks of one contestant, in processes of their own, which stand ready to be asked.
//
// Invariant: a contestant that cannot start, ends or hangs costs its own figures and says why; it never ends or hangs the
// benchmark, and none of its processes outlives it.
#pragma once

#include "player.hpp"

#include <sys/types.h>

#include <string>
#include <vector>

namespace bench {

class Contestant {
 public:
  // A program and its arguments; "{socket}", "{rank}" and "{meeting}" in them stand for what they say.
  using Command = std::vector<std::string>;
  // Starts processes that enter at a socket which this listens on: one for each rank, or `commands` has one alone, which
  // starts all ranks itself. [one thread; blocks]
  Contestant(std::string name, uint32_t size, const std::vector<Command>& commands, uint32_t ways = 1);
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;
  ~Contestant();

  const std::string& name() const noexcept { return name_; }
  // Why it has no figures; "" while it has.
  const std::string& why() const noexcept { return why_; }

  // Compares every element of an all-reduce, and finds the way that is fastest for what follows. False: it is out.
  // [one thread; blocks]
  bool prepare(const Work& work);
  // The same without the comparison.
  void aim(const Work& work);
  // A run of what was prepared, as often as fills some milliseconds: microseconds of one repeat on the rank that took longest;
  // negative when there is no figure. [one thread; blocks]
  double run();

 private:
  void start(const std::vector<Command>& commands);
  void wait_for_ranks(int listening);
  double ask(const Task& task);
  void give_up(const std::string& why);

  std::string name_, why_{}, folder_{};
  uint32_t size_, ways_;
  Task task_{};
  std::vector<int> sockets_;  // by rank
  std::vector<pid_t> children_{};
};

}  // namespace bench
