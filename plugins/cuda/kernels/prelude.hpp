// SPDX-License-Identifier: Apache-2.0
// prelude.hpp: the .cuh files of this folder as one text, the head of every generated source; made by embed.cmake.
#pragma once

#include "source.hpp"

#include <string_view>

namespace tenon::cuda {

std::string_view prelude_source() noexcept;
// What sources of reductions over ranks have besides: exchange.cuh and ranks.cuh.
std::string_view ranks_source() noexcept;

// What every source begins and ends with: the prelude, and the one argument of its entries, `p.at[]`: the addresses of `bindings`
// tensors, and last that of the workspace. [any-thread; does not block; cannot fail]
inline void open_source(Source& out, uint32_t bindings) {
  out.plain(std::string(prelude_source()));
  out.line();
  out.line("namespace tn {");
  out.line();
  out.line("struct Addresses { void* at[", bindings + 1, "]; };");
}
inline void close_source(Source& out) {
  out.line();
  out.line("}  // namespace tn");
}

}  // namespace tenon::cuda
