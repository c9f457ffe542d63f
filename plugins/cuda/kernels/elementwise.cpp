// SPDX-License-Identifier: Apache-2.0
// elementwise.cpp: a kernel whose every thread makes some elements of the outputs from the same elements of the inputs.
//
// A block takes `unroll` times 256 neighbouring chunks, a thread every 256th of them, so that a warp's accesses are
// neighbours. A single loop of odd extent leaves a tail of less than a chunk, which the first block adds.
#include "kernels.hpp"

namespace tenon::cuda {

using author::text;

namespace {

class Elementwise {
 public:
  Elementwise(const Frame& frame, const Trace& trace, const Target& target)
      : frame_(frame), trace_(trace), target_(target), loops_(trace.space.loops(false)) {}

  uint32_t lanes() const {
    if (loops_.empty()) return 1;
    return choose_lanes(frame_, trace_, loops_.back(), 0, trace_.values.size(), true, loops_.size() == 1);
  }

  Entry write(Source& out, const std::string& name, uint32_t lanes) const {
    const int64_t count = trace_.space.count(false), tail = loops_.size() == 1 ? count % lanes : 0;
    const auto chunks = static_cast<uint64_t>(count / lanes);
    Tile tile{.lanes = lanes, .variable = lanes > 1 ? loops_.back() : no_variable};
    // Of a small tensor every processor gets a part before any thread gets a second chunk.
    tile.unroll = body(tile).unroll(chunks / (uint64_t{block_threads} * target_.multiprocessors * 4));
    const uint64_t per_block = uint64_t{tile.unroll} * block_threads;
    const uint64_t blocks = std::max<uint64_t>((chunks + per_block - 1) / per_block, 1);
    out.open("TN_ENTRY(", name, ", Addresses)");
    write_tile(out, body(tile), tile, chunks, blocks);
    if (tail != 0) write_tail(out, count - tail, tail);
    out.close();
    return {.name = name, .blocks = static_cast<uint32_t>(blocks), .threads = block_threads};
  }

 private:
  Body body(const Tile& tile) const { return Body(frame_, trace_, tile, 0, trace_.values.size()); }

  void write_tile(Source& out, const Body& body, const Tile& tile, uint64_t chunks, uint64_t blocks) const {
    const std::string index = Body::index_type(trace_);
    out.line("const ", index, " first = static_cast<", index, ">(blockIdx.x) * ", tile.unroll * block_threads,
             "u + threadIdx.x;");
    body.declare(out);
    const bool even = chunks == blocks * tile.unroll * block_threads;
    const auto open = [&] {
      out.open_unrolled("u", tile.unroll);
      out.line("const ", index, " chunk = first + u * ", block_threads, "u;");
      if (!even) out.open("if (chunk < ", chunks, index == "u64" ? "ull)" : "u)");
      body.decode(out, loops_, "chunk");
      body.derive_shared(out);
    };
    const auto close = [&] {
      if (!even) out.close();
      out.close();
    };
    open();
    body.load(out);
    close();
    open();
    write_values(out, body);
    close();
  }

  // One element for each of the first threads; loads are made where they are used.
  void write_tail(Source& out, int64_t begin, int64_t count) const {
    const Tile tile{};
    const Body one = body(tile);
    out.open("if (blockIdx.x == 0 && threadIdx.x < ", count, "u)");
    out.line("[[maybe_unused]] const int u = 0;");
    one.declare(out);
    one.decode(out, loops_, text("(", begin, "u + threadIdx.x)"));
    one.derive_shared(out);
    one.load(out);
    write_values(out, one);
    out.close();
  }

  static void write_values(Source& out, const Body& body) {
    body.declare_stores(out);
    body.open_lanes(out);
    body.compute(out);
    body.fill_stores(out);
    out.close();
    body.store(out);
  }

  const Frame& frame_;
  const Trace& trace_;
  const Target& target_;
  std::vector<uint32_t> loops_;
};

}  // namespace

void write_elementwise(const Frame& frame, Trace& trace, const Target& target, uint32_t number,
                       Source& source, std::vector<Step>& steps) {
  trace.space.simplify(trace.stores.front().sum, trace.sums());
  const Elementwise kernel(frame, trace, target);
  Step step;
  const uint32_t lanes = kernel.lanes();
  if (lanes > 1) step.wide = kernel.write(source, text("step", number, "_wide"), lanes);
  step.any = kernel.write(source, text("step", number, "_any"), 1);
  steps.push_back(std::move(step));
}

}  // namespace tenon::cuda
