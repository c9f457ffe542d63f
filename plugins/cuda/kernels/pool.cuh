// SPDX-License-Identifier: Apache-2.0
// pool.cuh: where a window lies on its image, in one direction, and which element wins a window.
//
// Invariant: a part of a window that lies on padding is counted nowhere; a window on padding alone has no places and no winner.

namespace tn {

// Of a window of `kernel` places that starts at place `corner`, the numbers that are on the image: begin … end - 1.
template <class N>
__device__ inline N window_begin(N corner) { return corner < 0 ? -corner : 0; }
template <class N>
__device__ inline N window_end(N corner, N kernel, N places) { return corner > places - kernel ? places - corner : kernel; }
// How many of them there are.
template <class N>
__device__ inline N window_covers(N corner, N kernel, N places) {
  const N begin = window_begin(corner), end = window_end(corner, kernel, places);
  return end > begin ? end - begin : 0;
}

// Of windows a `stride` apart, those that cover a place: first … last - 1. `from` is the place counted from the first corner.
template <class N>
__device__ inline N first_window(N from, N kernel, N stride) { return from < kernel ? 0 : (from - kernel) / stride + 1; }
template <class N>
__device__ inline N last_window(N from, N stride, N windows) { return from / stride + 1 < windows ? from / stride + 1 : windows; }

// Whether x takes a window from `best`, which came before it: the first greatest stays, and so does the first NaN.
template <class T>
__device__ inline bool wins(T x, T best) { return best == best && (x != x || x > best); }

}  // namespace tn
