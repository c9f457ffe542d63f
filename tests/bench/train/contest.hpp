// SPDX-License-Identifier: Apache-2.0
// contest.hpp: racers that take their steps in turn, and the rows that come of it.
//
// Invariant: the racers of a contest train the same model on the same batch, and have learnt in the end.
#pragma once

#include "racer.hpp"

#include <memory>
#include <string>
#include <vector>

namespace bench {

struct Rider {
  std::string name{};
  std::unique_ptr<Racer> racer{};
  std::vector<double> times{};
};

// Prints a row for each but the first, which the others are compared with. [one thread; blocks]
void contest(const std::string& name, std::vector<Rider> riders);

}  // namespace bench
