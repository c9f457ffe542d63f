// SPDX-License-Identifier: Apache-2.0
// player.hpp: one rank of one contestant, and what the conductor asks of all of them.
//
// Ranks of every contestant stand ready in processes of their own, asleep in a read of a socket, and are asked for one figure
// at a time, so that their runs take turns. What is timed is the same code for all of them (`play`).
// Invariant: between two tasks a rank uses no processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace bench {

// What a rank does, again and again.
enum class Form : uint32_t {
  check,            // an all-reduce whose every element is compared; answers 0, or a negative figure
  back_to_back,     // the same floats again and again
  produce_consume,  // written before and read after each time; what that takes by itself is taken off, but a twentieth stays: less is noise
  barrier,
};
// Of what.
enum class Load : uint32_t {
  bytes,      // one buffer of so many
  gradients,  // the 161 of ResNet-50, one after the other
  flat,       // the same as one buffer
};

struct Work {
  Form form = Form::check;
  Load load = Load::bytes;
  uint64_t bytes = 0;  // of Load::bytes
};

struct Task {
  Work work{};
  uint32_t repeats = 1;
  uint32_t way = 0;  // of the player's, where it has several
};

struct Answer {
  double seconds = 0;  // for one repeat
};

inline constexpr uint64_t most_bytes = uint64_t{128} << 20;  // of what a player's memory holds

class Player {
 public:
  Player() = default;
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;
  virtual ~Player() = default;

  // most_bytes of floats, which all_reduce takes.
  virtual float* memory() = 0;
  // The sum over all ranks, in place. May go on after it returns, until `finish`; calls end in the order of their beginnings.
  virtual void all_reduce(float* data, size_t count) = 0;
  virtual void finish() {}
  // Which of its algorithms all_reduce takes from here on.
  virtual void take(uint32_t /*way*/) {}
  virtual void barrier() = 0;
};

// Does what comes over `socket` until the other side hangs up. [one thread; blocks]
void play(int socket, Player& player, uint32_t rank, uint32_t size);

// Joins the conductor that listens at `path`. -1: it does not. [one thread; may block]
int enter(const std::string& path, uint32_t rank);

// This rank's processor: the one of its number, or, where there are fewer, in turn. Of how many it is one.
uint32_t bind_to_processor(uint32_t rank);

}  // namespace bench
