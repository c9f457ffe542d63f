// SPDX-License-Identifier: Apache-2.0
// kernel.hpp: a compiled fragment as the host holds it.
//
// Invariant: the program behind a kernel never changes, so any number of streams run it at once; it outlives the kernel
// for as long as a launch is queued.
#pragma once

#include "engine/roster.hpp"
#include "stream.hpp"

#include <tenon/kernel.h>

namespace tenon::cpu {

// A runnable that can describe itself.
class Program : public Runnable {
 public:
  virtual void info(tn_kernel_info& out) const = 0;
};

class Kernel {
 public:
  Kernel(std::unique_ptr<const Program> program, Roster& roster)
      : program_(std::move(program)), roster_(roster) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;
  ~Kernel() { roster_.retire(std::move(program_)); }

  void info(tn_kernel_info& out) const { program_->info(out); }
  Status launch(Stream& stream, std::span<const tn_span> bindings, const tn_span& workspace) {
    return stream.launch(*program_, bindings, workspace);
  }

 private:
  std::unique_ptr<const Program> program_;
  Roster& roster_;
};

}  // namespace tenon::cpu
