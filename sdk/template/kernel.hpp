// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: Kernel, a compiled fragment. A fragment is one op, a fused group of ops, or a whole graph.
//
// Invariant: a launch finds as many bindings as the fragment has inputs and outputs, each large enough and
// aligned.
#pragma once

#include <tenon/author/plugin.hpp>

namespace plugin {

class Stream;

class Kernel {
 public:
  explicit Kernel(uint64_t elements) : elements_(elements) {}

  // Workspace and the name of who runs it.
  void info(tn_kernel_info& out) const;
  // Bindings are inputs, then outputs, in the fragment's order.
  tenon::Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace);

 private:
  uint64_t elements_;
};

}  // namespace plugin
