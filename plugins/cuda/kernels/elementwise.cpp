// SPDX-License-Identifier: Apache-2.0
// elementwise.cpp: a kernel whose every thread makes some elements of the outputs from the same elements of the inputs.
//
// A block takes `unroll` times 256 neighbouring chunks, a thread every 256th of them, so that a warp's accesses are
// neighbours. A single loop of odd extent leaves a tail of less than a chunk, which the first block adds.
//
// What to expect: the time of a large launch is its bytes over the memory's bandwidth. add3 of f32 moves 16 bytes an
// element: 3 × 1 GiB read and 1 GiB written are 4.295 GB, 999 µs at the 4.3 TB/s that a copy reaches on an H200. For that
// a processor must keep bandwidth × latency in flight: 4.3 TB/s × 0.7 µs / 132 is 23 KB. A thread of add3 has a chunk of three
// 16-byte loads in flight; with the 24 registers it takes 2048 of them live on a processor: 98 KB. Two chunks were 5 % slower on
// an H200: what is read at once lies in twice as many places.
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
    Tile tile{
        .lanes = lanes, .variable = lanes > 1 ? loops_.back() : no_variable, .steady = steady_loops(lanes)};
    // Of a small tensor every processor gets a part before any thread gets a second chunk. Where each block reads something
    // again, more chunks for each thread are fewer blocks that do.
    const uint32_t loads = body(tile).shares() ? 8 : 4;
    tile.unroll = body(tile).unroll(chunks / (uint64_t{block_threads} * target_.multiprocessors * 4), loads);
    const uint64_t per_block = uint64_t{tile.unroll} * block_threads;
    const uint64_t blocks = std::max<uint64_t>((chunks + per_block - 1) / per_block, 1);
    out.open("TN_ENTRY(", name, ", Addresses)");
    write_tile(out, body(tile), tile, chunks, blocks);
    if (tail != 0) write_tail(out, count - tail, tail);
    out.close();
    return {.name = name, .blocks = static_cast<uint32_t>(blocks), .threads = block_threads};
  }

 private:
  // A thread's chunks are a block's threads apart, so loops that turn over within a block are where they were.
  std::vector<uint32_t> steady_loops(uint32_t lanes) const {
    std::vector<uint32_t> out;
    int64_t period = 1;
    for (size_t n = loops_.size(); n-- > 1;) {
      period *= trace_.space.variables()[loops_[n]].extent / (n + 1 == loops_.size() ? lanes : 1);
      if (block_threads % period != 0) break;
      out.push_back(loops_[n]);
    }
    return out;
  }
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
    if (body.shares()) {
      out.open("if (first < ", chunks, index == "u64" ? "ull)" : "u)");
      body.decode(out, loops_, "first");
      body.load_shared(out);
      out.close();
    }
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
