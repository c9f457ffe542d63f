// SPDX-License-Identifier: Apache-2.0
// players.hpp: the contestants that are made by this program; MPI's come from programs of their own (mpi_player.cpp).
#pragma once

#include "player.hpp"

#include <memory>
#include <string>
#include <vector>

namespace bench {

// Where a rank stands. `meeting` is a folder that is empty at first, `floor` a file of most_bytes and a page for each rank.
// `host` and `address` are of one host among several, each with a network of its own; empty: all are on this one.
struct Seat {
  uint32_t rank = 0, size = 1;
  uint32_t processors = 1;  // that the ranks share
  std::string meeting{}, floor{};
  std::string host{}, address{};
};

// The command of a rank of `who` ("tenon", "private", "hierarchy", "gloo", "floor"), as `play_here` understands it.
std::vector<std::string> command_of(const std::string& who, const Seat& seat);
// Plays the rank that the command's words name, until the conductor hangs up; the status to exit with.
int play_here(char** words);

// Ours, over the CPU plugin, in buffers of its pool. `shared`: whose pages the other ranks reach.
std::unique_ptr<Player> tenon_player(const Seat& seat, bool shared);
// The same through groups of the ranks of a host, by the route that measured costs choose.
std::unique_ptr<Player> tenon_hierarchy(const Seat& seat);
// Gloo's ring and its hypercube, over TCP on loopback. Empty: this build has no Gloo.
std::unique_ptr<Player> gloo_player(const Seat& seat);
inline constexpr uint32_t gloo_ways = 2;
// No collective: each rank sums its share of all ranks' memory and writes it to all, and nobody waits for anybody. Where ranks share a
// processor, one of them does their shares in turn.
std::unique_ptr<Player> floor_player(const Seat& seat);

}  // namespace bench
