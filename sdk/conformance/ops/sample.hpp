// SPDX-License-Identifier: Apache-2.0
// sample.hpp: a kernel to try the interface with: one elementwise node that the plugin runs, whichever it is. One of two
// operands reads the same tensor twice, so that every sample has one input and one output.
//
// Invariant: a case that is about the interface names no op, so a device that runs a single op can be asked all of it.
#pragma once

#include "conformance/guard.hpp"
#include "conformance/ops/draw.hpp"
#include "conformance/ops/kernel.hpp"

namespace tenon::conform {

class Sample {
 public:
  // The first elementwise row and type that the plugin runs densely over `elements`; leaves the case as unsupported
  // ("kernel.elementwise") where there is none. [case's thread; may fail]
  static Result<Sample> find(Context& t, const Device& device, int64_t elements);
  // The same node over other many elements; leaves the case as unsupported where the plugin refuses that.
  // [case's thread; may fail]
  Result<Sample> resized(Context& t, const Device& device, int64_t elements) const;

  // The trial with the numbers of `seed`.
  const Trial& trial() const noexcept { return trial_; }
  Bytes input(uint64_t seed) const;
  uint64_t input_bytes() const noexcept { return trial_bytes(trial_.inputs[0]); }
  uint64_t output_bytes() const noexcept { return trial_bytes(trial_.outputs[0]); }
  // `found` must be the op's result for input(seed). [any-thread]
  bool expect(Context& t, uint64_t seed, std::span<const std::byte> found, const std::string& where) const;

 private:
  static uint64_t trial_bytes(const Operand& o) noexcept {
    return element_count(o.dims) * element_bytes(o.dtype);
  }
  Trial trial_{};
};

// A kernel of a sample with an input, an output and a workspace of its own.
struct Bench {
  Kernel kernel{};
  tn_kernel_info info{};
  Memory input{}, output{}, workspace{};

  static Result<Bench> make(Context& t, const Device& device, const Sample& sample);
  std::vector<tn_span> bindings() const { return {input.span(), output.span()}; }
  // With its workspace, where it needs one.
  Status launch(const Stream& stream, std::span<const tn_span> bindings) const;
  Status launch(const Stream& stream) const { return launch(stream, bindings()); }
};

}  // namespace tenon::conform
