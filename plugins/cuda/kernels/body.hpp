// SPDX-License-Identifier: Apache-2.0
// body.hpp: what a thread does for its elements: loads, values, stores.
//
// A tile is `unroll` chunks of `lanes` neighbouring elements. All loads of a tile stand before the first use, so that they
// are in flight together; each tensor is moved in the widest words that its strides leave aligned, and what all chunks of a
// tile share is loaded once.
// Names: p.at[n] addresses; i<n> a loop, j<n> the same for one lane; d<n> a derived variable; x<n>[u] what value n loaded,
// x<n>[0] for all; t<n> value n; y<n> what is stored of it; u the chunk, v the lane.
// Invariant: the text depends on the trace alone.
#pragma once

#include "program.hpp"
#include "source.hpp"
#include "trace.hpp"

namespace tenon::cuda {

constexpr uint32_t block_threads = 256;
constexpr uint32_t no_variable = UINT32_MAX;

struct Tile {
  uint32_t lanes = 1, unroll = 1;
  uint32_t variable = no_variable;  // the loop that lanes walk; none for one lane
  // Loops that are where they are for all chunks of a tile: what follows no others is loaded once.
  std::vector<uint32_t> steady{};
};

// How an access moves the lanes of a chunk.
struct Width {
  enum class Kind {
    once,   // one element for all lanes
    words,  // neighbours, in words of `bytes`
    steps,  // `step` apart
    lane    // each lane finds its own
  };
  Kind kind = Kind::once;
  uint32_t bytes = 0;
  int64_t step = 0;
};
Width width_of(const Space& space, const Affine& sum, const std::vector<Condition>& conditions,
               uint32_t element_bytes, const Tile& tile);

// What all kernels of a fragment share.
struct Frame {
  const FragmentView& fragment;
  const Schedule& schedule;

  // "static_cast<const f32*>(p.at[0])"; `to` the binding stored to.
  std::string address(uint32_t tensor) const;
  std::string address_to(uint32_t binding, uint32_t dtype) const;
  std::string workspace(uint64_t offset, const std::string& type) const;
};

// Of a kernel that keeps rows: the loads that are kept, or those that are made where they are used.
enum class Loads { all, kept, passing };

class Body {
 public:
  // Of values first … last - 1.
  Body(const Frame& frame, const Trace& trace, const Tile& tile, size_t first, size_t last);

  // "u32", or "u64" where some offset needs it.
  static const char* index_type(const Trace& trace);

  // "Lanes<f32, 4> x0[2];" for each load.
  void declare(Source& out, Loads which = Loads::all) const;
  // i<n> of the loops, innermost last, from chunk number `chunk`, whose lanes walk the innermost if any do.
  void decode(Source& out, const std::vector<uint32_t>& loops, const std::string& chunk) const;
  // Derived variables that all lanes share: once in each scope that loads, computes or stores.
  void derive_shared(Source& out) const { derive(out, false); }
  // Loads of what all chunks share, once; then those of a chunk, in a loop over u.
  bool shares() const;
  void load_shared(Source& out) const;
  void load(Source& out, Loads which = Loads::all) const;
  // The loop over v, and the values of one lane.
  void open_lanes(Source& out) const;
  void compute(Source& out) const;
  // A sum as that lane sees it.
  std::string in_lane(const Affine& sum) const { return spelled(sum, true); }
  // What is stored of these values: a place for its lanes, filled in the loop over v, and written behind it.
  void declare_stores(Source& out) const;
  void fill_stores(Source& out) const;
  void store(Source& out) const;
  // How many chunks a thread should take at once, at most `most`, and so few that they are at most `loads` words of memory on their
  // way (but for one chunk's): eight hide the memory's latency whatever the kernel, and where many threads fit fewer do. A random
  // draw takes a dozen registers while it is made.
  uint32_t unroll(uint64_t most, uint32_t loads = 8) const;

 private:
  uint32_t words() const;
  bool draws() const;
  bool is_loaded(const Value& value, Loads which) const;
  bool is_shared(const Value& value) const;
  bool is_read_again(const Value& value) const;
  void load_one(Source& out, size_t i) const;
  bool makes(const Store& one) const { return one.value >= first_ && one.value < last_; }
  std::string spelled(const Affine& sum, bool in_lane) const;
  std::string name(uint32_t variable, bool in_lane) const;
  std::string condition(const std::vector<Condition>& conditions, bool in_lane) const;
  std::string number(int64_t value) const;
  std::string element(const Value& value) const;
  std::string value_text(const Value& value) const;
  void derive(Source& out, bool in_lane) const;
  bool varies(const Affine& sum) const;

  const Frame& frame_;
  const Trace& trace_;
  Tile tile_;
  size_t first_, last_;
  const char* index_;
  std::vector<bool> used_{};  // variables that values and stores need
};

// The most lanes that serve the accesses of values first … last - 1, and of the stores where `stores`. With a `tail` the
// loop's extent needs no divisor.
uint32_t choose_lanes(const Frame& frame, const Trace& trace, uint32_t variable, size_t first, size_t last,
                      bool stores, bool tail);

}  // namespace tenon::cuda
