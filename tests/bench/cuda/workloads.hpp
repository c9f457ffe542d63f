// SPDX-License-Identifier: Apache-2.0
// workloads.hpp: what a training step's time on a GPU is made of, each as a graph for the plugin and a name for torch.
//
// Invariant: both sides compute the same from numbers between 0 and 1, into memory that was there before.
#pragma once

#include <tenon/graph.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Workload {
  std::string name;
  tenon::Graph graph;
  double moved = 0;  // bytes that it has to read and write: its floor is a copy of as many; 0: none is known
  std::vector<std::string> torch{};  // ways in which torch does the same
  std::string beside{};              // another workload that it is compared with
};

// `part`: 1 for the sizes that targets are written for, more for as many times smaller ones. [one thread; does not block]
std::vector<Workload> workloads(int64_t part);

}  // namespace bench
