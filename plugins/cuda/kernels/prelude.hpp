// SPDX-License-Identifier: Apache-2.0
// prelude.hpp: the .cuh files of this folder as texts, of which every generated source is headed; made by embed.cmake.
#pragma once

#include "source.hpp"

#include <string_view>

namespace tenon::cuda {

std::string_view prelude_source() noexcept;
// What sources have besides: of pools, of sums by index, of updates.
std::string_view pool_source() noexcept;
std::string_view sort_source() noexcept;
std::string_view update_source() noexcept;

// What every source begins and ends with: the prelude, what it has `besides`, and the one argument of its entries, `p.at[]`: the
// addresses of `bindings` tensors, and last that of the workspace. [any-thread; does not block; cannot fail]
inline void open_source(Source& out, uint32_t bindings, std::string_view besides = {}) {
  out.plain(std::string(prelude_source()));
  out.plain(std::string(besides));
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
