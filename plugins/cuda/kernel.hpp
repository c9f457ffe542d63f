// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: a compiled fragment, ready to launch.
//
// Invariant: nothing in a kernel changes after it is made, so any number of streams launch it at once.
#pragma once

#include "engine/compiler.hpp"
#include "kernels/program.hpp"
#include "stream.hpp"

#include <tenon/kernel.h>

namespace tenon::cuda {

class Kernel {
 public:
  // Loads a bundle's code for `program`. [any-thread; may block; may fail]
  static Result<std::unique_ptr<Kernel>> make(std::shared_ptr<Gpu> gpu, const Program& program, Bundle bundle,
                                              double cost_ns);

  void info(tn_kernel_info& out) const;
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace);
  Result<uint64_t> save(std::span<std::byte> out) const;

 private:
  Kernel(Bundle bundle, uint64_t workspace, double cost_ns)
      : bundle_(std::move(bundle)), workspace_(workspace), cost_ns_(cost_ns) {}
  Status load(std::shared_ptr<Gpu> gpu, const Program& program);

  Bundle bundle_;
  uint64_t workspace_;
  double cost_ns_;
  std::shared_ptr<const Module> module_{};
  std::vector<Grid> wide_{}, any_{};
};

}  // namespace tenon::cuda
