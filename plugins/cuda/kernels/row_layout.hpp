// SPDX-License-Identifier: Apache-2.0
// row_layout.hpp: how rows lie over threads, and which of a row's loads a thread keeps.
//
// A block is 256 threads, or 128 where each keeps little and those of a row have to meet. Where memory runs along a row
// ("inner"), up to 256 neighbouring threads share it, and short rows lie side by side; where it runs across rows ("outer"),
// neighbouring threads have neighbouring rows, and the block's rows of threads share them.
// Invariant: a layout depends on the trace and the lanes alone.
#pragma once

#include "body.hpp"

namespace tenon::cuda {

struct RowLayout {
  bool inner = true;
  bool kept = false;     // a thread reads its part of a row once; else again for each stage
  bool crowded = false;  // it keeps so much that the compiler has to be told to save registers
  bool light = false;    // it keeps so little that a multiprocessor has room for 768 threads
  uint32_t threads = block_threads;
  uint32_t lanes = 1, across = 1, along = 1;
  uint32_t unroll = 1;            // of rows that are kept: all chunks of a thread
  uint64_t rows = 1, chunks = 1;  // chunks of rows, where lanes walk them, and of a row

  // How many times a block's rows there are.
  uint64_t rounds() const noexcept;
  // The tile of a row's elements, and of what there is one of for each row.
  Tile tile(const Space& space, uint32_t chunks_at_once) const;
  Tile row_tile(const Space& space) const { return inner ? Tile{} : tile(space, 1); }
};

// Whether memory runs along the rows; the loops are in order afterwards, and what there is one of for each row apart.
bool order_rows(RowTrace& trace);
// The most lanes that serve its accesses.
uint32_t row_lanes(const Frame& frame, const RowTrace& trace, bool inner);
// Marks the loads that are kept, and those that find them.
RowLayout lay_out_rows(RowTrace& trace, bool inner, uint32_t lanes);

// The sum over rows number n adds up in: its dtype's register.
uint32_t sum_bytes_of(const RowTrace& trace, size_t n);

}  // namespace tenon::cuda
