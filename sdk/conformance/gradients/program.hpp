// SPDX-License-Identifier: Apache-2.0
// program.hpp: one node as a kernel of the plugin that can be run on one list of numbers after another.
//
// Invariant: operands lie in guarded memory; what is written beside them fails the run.
#pragma once

#include "conformance/ops/buffer.hpp"
#include "conformance/ops/kernel.hpp"
#include "conformance/ops/workspace.hpp"

#include <deque>

namespace tenon::conform {

class Program {
 public:
  // TN_UNSUPPORTED, with the op and the plugin's reason, where it takes no such node. The trial outlives this.
  // [case's thread; may fail]
  static Result<std::unique_ptr<Program>> make(Context& t, const Device& device, const Stream& stream,
                                               const Trial& trial);
  // The outputs, of inputs in the order of the trial; those of absent ones are not looked at. [stream's thread; may fail]
  Result<std::vector<Tensor>> run(const std::vector<Tensor>& inputs);

 private:
  Program(Context& t, const Stream& stream, const Trial& trial) : t_(t), stream_(stream), trial_(trial) {}
  Context& t_;
  const Stream& stream_;
  const Trial& trial_;
  std::deque<Buffer> inputs_{}, outputs_{};
  Workspace workspace_{};
  Kernel kernel_{};
};

// What a node of `row` gives for these inputs: types and dims, with `attributes` written out. Nothing where the kit does
// not know. [any-thread; may throw bad_alloc]
std::vector<Operand> results_of(const Row& row, const std::vector<Operand>& inputs, const Trial& attributes);
// Axes counted from the front, whatever they were counted from. [any-thread; may throw bad_alloc]
std::vector<int64_t> from_the_front(std::vector<int64_t> axes, size_t rank);
// The attributes that the row takes, those of `given` and the row's defaults, in order. [any-thread; may throw bad_alloc]
std::vector<AttributeValue> completed(const Row& row, std::vector<AttributeValue> given);

}  // namespace tenon::conform
