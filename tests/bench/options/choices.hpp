// SPDX-License-Identifier: Apache-2.0
// choices.hpp: which option is compared with which other value of it, in which steps.
//
// Invariant: an option of strategy.def stands here, or docs/gen/tables.py says why no time is measured for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

struct Choice {
  const char* option;
  const char* other;                // the value that the default is compared with
  std::vector<std::string> base{};  // of both
};

// The steps of one model, and what is tried in them.
struct Trials {
  std::string model;  // of bench_train_rank
  uint32_t batch, ranks;
  std::vector<Choice> choices;
};

// [any-thread; does not block; cannot fail]
std::vector<Trials> all_trials();

// A step as `auto` has it made, beside each setting alone that it may choose.
struct Automatic {
  std::string model;
  uint32_t batch, ranks;
  std::vector<std::string> settings;  // NAME=VALUE
};

// [any-thread; does not block; cannot fail]
std::vector<Automatic> all_automatic();

}  // namespace bench
