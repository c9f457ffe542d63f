// SPDX-License-Identifier: Apache-2.0
// pool.hpp: a window that slides over images, and the lines that walk under it, for the pools and their gradients.
//
// Names in the sources: h and w, where a window's first corner is on the image; r and s, a place within a window; in gradients
// h and w are the place itself, counted from the first window's corner, and q and k the windows that cover it.
// Invariant: every loop visits only what is there: padding is skipped, never read.
#pragma once

#include "alone.hpp"
#include "walk.hpp"

namespace tenon::cuda {

// One direction of a window.
struct Slide {
  int64_t places = 0, windows = 0, kernel = 0, stride = 0, before = 0;
};

struct Pool {
  explicit Pool(const FragmentView& fragment);

  int64_t window() const noexcept { return high.kernel * wide.kernel; }
  // How far what a kernel makes of the sums of `tensor`, or of places, may be from them.
  int64_t reach(TensorView tensor) const noexcept;

  uint32_t op;
  TensorView image, windows;  // x or dx, and y or dy
  Slide high{}, wide{};
  bool count_pad = false;
};

Dims strides_of(TensorView tensor);
// "const Lanes<f32, 4> x = load<4, 16, false>(static_cast<const f32*>(p.at[0]) + (at));" Windows overlap, so what is read may
// be wanted again: it goes through L1. [any-thread; may throw bad_alloc]
std::string loaded(const char* name, const std::string& type, uint32_t bytes, uint32_t lanes,
                   const std::string& from, const std::string& at);
// "static_cast<const f32*>(p.at[0])"
std::string bound(const std::string& type, uint32_t binding);

// Places (r, s) of the window whose first corner is at sums `h` and `w`, and the address `at` of each from sum `corner`; open
// until close_loops.
void open_window(Source& out, const Walk& walk, const Pool& pool, uint32_t h, uint32_t w, uint32_t corner);
// Windows (q, k) that cover the place at sums `h` and `w`, counted from the first corner; open until close_loops.
void open_covering(Source& out, const Walk& walk, const Pool& pool, uint32_t h, uint32_t w);
void close_loops(Source& out);

// The kernels of the gradients. [any-thread; may throw bad_alloc]
void write_pool_gradient(const FragmentView& fragment, const Pool& pool, Source& out, Program& program);
uint64_t winners_bytes(const FragmentView& fragment);

}  // namespace tenon::cuda
