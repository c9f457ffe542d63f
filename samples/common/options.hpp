// SPDX-License-Identifier: Apache-2.0
// options.hpp: what every training sample takes on its command line.
#pragma once

#include <tenon/strategy.hpp>

#include <cstdint>
#include <functional>
#include <string>

namespace sample {

struct Options {
  uint64_t batch = 64;  // of all ranks together
  uint64_t steps = 20;
  double rate = 0.05;
  std::string plot{};  // an SVG file with the curves of loss and speed
  tenon::Strategy strategy{};
};

// A word of the sample's own with its value: true when it is one. [may fail]
using Own = std::function<tenon::Result<bool>(const std::string& word, const std::string& value)>;

// Adds to `into`, after TENON_… of the environment. TN_INVALID naming the word and the remedy, with `usage` behind it.
// [one thread; may block; may fail]
tenon::Status read_options(Options& into, int argc, char** argv, const std::string& usage,
                           const Own& own = {});

// The options of `usage` that are everybody's.
inline const char* const usual =
    "[--batch N] [--steps N] [--rate R] [--plot FILE.svg] [--strategy FILE.toml] [--set NAME=VALUE]…";

}  // namespace sample
