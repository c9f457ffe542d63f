// SPDX-License-Identifier: Apache-2.0
// racer.hpp: one way to train a model, in processes of its own, one for each rank, asked for one step at a time.
//
// Invariant: a racer that cannot start, ends or does not learn costs its own figures and says why.
#pragma once

#include "../ranks.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace bench {

// What is trained: all racers of a contest train the same.
struct Task {
  std::string model{};  // as bench_train_rank knows it
  uint32_t batch = 16;  // of all ranks together
  uint32_t ranks = 1;
  std::string device = "cpu";  // or "cuda": the batch is there already
};

class Racer {
 public:
  // Ours, with options of a strategy as "NAME=VALUE".
  static std::unique_ptr<Racer> ours(const Task& task, const std::vector<std::string>& options = {});
  // torch: "eager" or "compile", with the words that torch_peer.py knows ("nhwc", "bf16").
  static std::unique_ptr<Racer> torch(const Task& task, const std::vector<std::string>& words);

  // A command for each rank, and the folder where they meet, which goes with it. The model is made and one step taken.
  // [one thread; blocks]
  Racer(const std::vector<Peer::Command>& commands, const std::vector<Peer::Settings>& settings,
        std::string meeting);

  // Why it has no figures; "" while it has.
  const std::string& why() const noexcept { return ranks_.why(); }
  uint64_t parameters() const noexcept { return parameters_; }
  // One step, in milliseconds of the rank that took longest; negative when there is no figure. [one thread; blocks]
  double step();
  // Every racer is asked for the same batch in every step, so its loss must have fallen. [one thread; blocks]
  void check_learning();
  // Takes it out.
  void give_up(const std::string& why) { ranks_.give_up(why); }

 private:
  Ranks ranks_;
  uint64_t parameters_ = 0;
  double first_loss_ = 0, last_loss_ = 0;
};

}  // namespace bench
