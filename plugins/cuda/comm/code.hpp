// SPDX-License-Identifier: Apache-2.0
// code.hpp: the compiled reductions of one type on one device, shared by all communicators that use them.
//
// Invariant: code lives as long as a communicator that has asked for it.
#pragma once

#include "../engine/compiler.hpp"
#include "../engine/gpu.hpp"

#include <array>

namespace tenon::cuda::comm {

class Code {
 public:
  // Compiles them, or finds them. TN_NOT_FOUND without NVRTC. [any-thread; may block; may fail]
  static Result<std::shared_ptr<const Code>> of(const std::shared_ptr<Gpu>& gpu, const Compiler& compiler,
                                                uint32_t dtype);
  // Null where the type has no such reduction.
  CUfunction function(uint32_t reduce) const noexcept { return functions_[reduce]; }

 private:
  static Result<std::shared_ptr<const Code>> make(const std::shared_ptr<Gpu>& gpu, const Compiler& compiler,
                                                  uint32_t dtype);
  std::shared_ptr<const Module> module_{};
  std::array<CUfunction, 7> functions_{};  // by the number of the reduction
};

}  // namespace tenon::cuda::comm
