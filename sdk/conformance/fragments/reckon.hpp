// SPDX-License-Identifier: Apache-2.0
// reckon.hpp: what a whole fragment gives, in fp64, and how far from it a device may be.
//
// Values are not rounded between nodes. The error of a value is what its own node may add (ops/compare.hpp: its column, its
// dtype, its terms) and what the errors of its inputs become in it:
//   elementwise   the op is computed at the ends of the ranges that its inputs may lie in, at zero and inside; the farthest
//                 counts
//   other ops     all inputs are moved by their errors, up, down and with random signs; twice the farthest counts
// An element is nobody's to tell where a decision hangs on an inexact number (a comparison of numbers that may be equal, the
// greatest of near ones, an integer made from a number at its edge), where a value may leave its type's range, or where an
// elementwise result may be off by a quarter of itself; so is whatever is made from it.
// Invariant: a device that runs node by node, rounding each value to its tensor's dtype, and one that rounds none of them,
// are both within the error.
#pragma once

#include "conformance/fragments/group.hpp"
#include "conformance/judging.hpp"
#include "conformance/ops/meaning.hpp"

namespace tenon::conform {

struct Reckoned {
  Tensor tensor{};
  std::vector<double> error{};  // of each element; infinite: nobody can tell
  bool exact = true;            // no error is above 0
};

class Reckoning {
 public:
  // Inputs and constants have their numbers; nodes follow one by one. The group may grow meanwhile.
  explicit Reckoning(const Group& group, const Judging* judging = nullptr)
      : group_(group), judging_(judging) {}

  // Computes node `node`, whose inputs are known. [any-thread; may throw bad_alloc]
  void node(size_t node);
  void all() {
    for (size_t n = 0; n < group_.nodes.size(); ++n) node(n);
  }
  // Values from `count` on were taken out of the group.
  void forget(size_t count) {
    if (values_.size() > count) values_.resize(count);
  }
  // A value that a computed node reads or makes.
  const Reckoned& value(uint32_t value) const { return values_[value]; }

 private:
  struct Step;
  Reckoned& known(uint32_t value);
  void derive(const Step& step, Job& job);

  const Group& group_;
  const Judging* judging_;
  std::vector<Reckoned> values_{};
};

// How an output fares against what was reckoned.
struct Fared {
  std::string story{};  // what is wrong with it; empty: nothing
  uint64_t told = 0;    // elements that could be told
  uint64_t eased = 0;   // of these, elements that only `wide` lets pass
};
// `wide` has the vendor's tolerances in it; without any it is `usual` itself. [any-thread; may throw bad_alloc]
Fared compare(const Reckoned& usual, const Reckoned& wide, const Tensor& got);

}  // namespace tenon::conform
