// SPDX-License-Identifier: Apache-2.0
// ranks.hpp: the ranks of one contestant, each a process that speaks as peer.hpp says, asked together.
//
// Invariant: all are asked before the first is heard, so they work at the same time; one that fails takes its contestant out,
// with its reason, and nobody else.
#pragma once

#include "peer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace bench {

class Ranks {
 public:
  // A folder of their own, where they meet; "" when none can be made.
  static std::string meeting();

  // A command and the environment's settings for each rank; `meeting` goes with this. [one thread; blocks]
  Ranks(const std::vector<Peer::Command>& commands, const std::vector<Peer::Settings>& settings,
        std::string meeting);
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks();

  // Why they have no figures; "" while they have.
  const std::string& why() const noexcept { return why_; }
  // What each answers to `line`; once there is a why, what it says is not to be trusted. [one thread; blocks]
  std::vector<std::string> ask(const std::string& line);
  // The same as figures, the greatest of each place over all ranks; none where an answer is not `count` figures.
  std::vector<double> figures(const std::string& line, size_t count);
  // Takes them out.
  void give_up(const std::string& why);

 private:
  std::vector<std::unique_ptr<Peer>> ranks_{};
  std::string meeting_, why_{};
};

}  // namespace bench
