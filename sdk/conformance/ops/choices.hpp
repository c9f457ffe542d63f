// SPDX-License-Identifier: Apache-2.0
// choices.hpp: what a trial is drawn from, so that a failing one can be made simpler.
//
// A trial is a function of a list of choices, each a number below a bound where 0 is the simplest. Drawn anew the numbers
// are random; replayed they are given, and what is missing is 0. So every list, however cut, makes a legal trial, and
// shrinking never has to know what a shape or an attribute is.
// Invariant: equal lists make equal trials.
#pragma once

#include "conformance/random.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace tenon::conform {

class Choices {
 public:
  // Draws from `source`, which outlives this.
  explicit Choices(Random& source) noexcept : source_(&source) {}
  // Replays.
  explicit Choices(std::vector<uint64_t> given) noexcept : given_(std::move(given)) {}

  // 0 … bound-1; bound is at least 1. [any-thread; does not block; may throw bad_alloc]
  uint64_t below(uint64_t bound);
  // low … high, both included, low the simplest.
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low) + 1));
  }
  // True once in `one_in` times; false is simpler.
  bool chance(uint64_t one_in) { return below(one_in) == one_in - 1; }
  // One of them, the first the simplest.
  template <class T>
  T pick(std::initializer_list<T> options) {
    return options.begin()[below(options.size())];
  }

  // Every choice so far. [any-thread; does not block; cannot fail]
  const std::vector<uint64_t>& made() const noexcept { return made_; }

 private:
  Random* source_ = nullptr;
  std::vector<uint64_t> given_{};
  std::vector<uint64_t> made_{};
};

// The simplest list found that still fails: tries to cut the end, to lower each choice to 0, to a half, by one, and
// to leave it out. Asks
// `fails` at most `attempts` times; `failing` itself is not asked again. [any-thread; blocks as `fails` does]
std::vector<uint64_t> shrink(std::vector<uint64_t> failing,
                             const std::function<bool(const std::vector<uint64_t>&)>& fails,
                             unsigned attempts);

}  // namespace tenon::conform
