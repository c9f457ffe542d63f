// SPDX-License-Identifier: Apache-2.0
// row_kernel.cpp: a kernel that folds rows, folds them again with what came of it, and makes them anew.
//
// What a thread reads of rows that fit its registers it reads once and keeps, as it lies in memory; longer rows are read again
// by each stage, for which the second-level cache is near. Sums over rows are added up in registers by the threads that have
// the rows; then a block takes every so many of them, and leaves its part of each sum to a second kernel, which folds the parts
// in the order of the blocks.
//
// What to expect: layer norm of 64k × 4096 bf16 reads and writes 2 × 537 MB, 250 µs at the 4.3 TB/s of a copy. A row is 512
// words of 16 bytes, four for each of 128 threads, 16 registers a thread for what is kept. Left to itself the compiler takes 120
// for the rest, which leaves room for 512 threads a multiprocessor. On an H100 it took 597 µs of 364 so, 596 with fewer registers
// alone, and 370 with scale and bias by way of L1 as well. On an H200, whose memory is faster, blocks of two rows left it at 300
// µs, of one at 277: rows of a block wait for each other. Blocks that stay, and load the next row while they sum one, were no
// faster (300).
// Invariant: the order in which parts are joined depends on shapes and target alone.
#include "expression.hpp"
#include "kernels.hpp"
#include "literal.hpp"
#include "row_layout.hpp"

#include <algorithm>

namespace tenon::cuda {

using author::text;

namespace {

class RowKernel {
 public:
  RowKernel(const Frame& frame, const Group& group, RowTrace trace, bool inner, uint32_t lanes)
      : frame_(frame),
        group_(group),
        trace_(std::move(trace)),
        rows_(trace_.space.loops(false)),
        row_(trace_.space.loops(true)),
        index_(Body::index_type(trace_)),
        layout_(lay_out_rows(trace_, inner, lanes)) {}

  const RowLayout& layout() const noexcept { return layout_; }

  // With as many blocks as leave parts, where there are sums over rows.
  Entry write(Source& out, const std::string& name, const Parts& parts) const {
    out.open(layout_.crowded ? "TN_CROWDED_ENTRY("
             : layout_.light ? "TN_LIGHT_ENTRY("
                             : "TN_ENTRY(",
             name, ", Addresses)");
    out.line("[[maybe_unused]] const int u = 0;");
    write_lanes(out);
    for (size_t n = 0; n < sums(); ++n)
      out.line(sum_type(n), " sum", n, "[", layout_.unroll * layout_.lanes, "] = {};");
    out.line("const ", index_, " block = blockIdx.x;");
    if (sums() > 0)
      out.open("for (", index_, " round = block; round < ", number(layout_.rounds()),
               "; round += ", number(parts.slices), ")");
    write_place(out);
    const RowTrace::Stage& first = trace_.stages.front();
    if (layout_.kept) elements_of(first, layout_.unroll).declare(out, Loads::kept);
    for (size_t i = 0; i < trace_.stages.size(); ++i) {
      if (i > 0) open_later_stage(out, i);
      if (i + 1 < trace_.stages.size())
        write_stage(out, trace_.stages[i]);
      else
        write_of_rows(out, trace_.stages[i]);
    }
    for (size_t i = 1; i < trace_.stages.size(); ++i) out.close();
    if (sums() > 0) {
      out.close();
      write_parts(out, parts);
    }
    out.close();
    const uint64_t blocks = sums() > 0 ? parts.slices : layout_.rounds();
    return {.name = name, .blocks = static_cast<uint32_t>(blocks), .threads = layout_.threads};
  }
  uint64_t part_bytes(size_t n) const {
    return static_cast<uint64_t>(trace_.space.count(true)) * sum_bytes_of(trace_, n);
  }

 private:
  Body elements_of(const RowTrace::Stage& stage, uint32_t unroll) const {
    return Body(frame_, trace_, layout_.tile(trace_.space, unroll), stage.by_row, stage.last);
  }
  std::string number(uint64_t value) const { return text(value, index_[1] == '6' ? "ull" : "u"); }
  uint32_t op(uint32_t slot) const { return frame_.fragment.nodes()[group_.reductions[slot]].op; }
  std::string fold(uint32_t slot) const { return fold_of(op(slot)); }
  std::string type(uint32_t slot) const {
    const tn_node& node = frame_.fragment.nodes()[group_.reductions[slot]];
    return register_type(frame_.fragment.tensor(node.inputs[0]).dtype());
  }

  size_t sums() const { return trace_.columns.size(); }
  std::string sum_type(size_t n) const { return register_type(trace_.values[trace_.columns[n]].dtype); }
  // Inside the stage before, whose results are needed. What that one has loaded and does not keep is loaded again.
  void open_later_stage(Source& out, size_t i) const {
    out.open_block();
    if (layout_.kept) out.line("[[maybe_unused]] const u32 ", lane(trace_.stages[i]), " = hidden(rlane);");
  }
  // This thread's number among those of its row, as a stage calls it.
  std::string lane(const RowTrace::Stage& stage) const {
    const auto i = &stage - trace_.stages.data();
    return layout_.kept && i > 0 ? text("rlane", i) : "rlane";
  }

  void write_lanes(Source& out) const {
    const char* const fast = layout_.inner ? "rlane" : "klane";
    const char* const slow = layout_.inner ? "klane" : "rlane";
    const uint32_t width = layout_.inner ? layout_.along : layout_.across;
    out.line("[[maybe_unused]] const u32 ", fast, " = threadIdx.x % ", width, "u, ", slow,
             " = threadIdx.x / ", width, "u;");
  }

  // Which row this thread works on: where there is none it reads another one's, and stores nothing.
  void write_place(Source& out) const {
    out.line("const ", index_, " place = ", sums() > 0 ? "round" : "block", " * ", layout_.across,
             "u + klane;");
    out.line("const bool live = place < ", number(layout_.rows), ";");
    out.line("[[maybe_unused]] const ", index_, " k = live ? place : 0;");
    Body(frame_, trace_, layout_.row_tile(trace_.space), 0, 0).decode(out, rows_, "k");
  }

  void write_stage(Source& out, const RowTrace::Stage& stage) const {
    if (stage.by_row > stage.first) {
      const Body row(frame_, trace_, Tile{}, stage.first, stage.by_row);
      row.declare(out);
      row.derive_shared(out);
      row.load(out);
      row.compute(out);
    }
    if (stage.slots.empty())
      return sweep(out, stage, true, [&](const Body& body) { write_rows_anew(out, body); });
    for (const uint32_t slot : stage.slots) declare_part(out, slot);
    sweep(out, stage, false, [&](const Body& body) { write_joins(out, stage, body); });
    for (const uint32_t slot : stage.slots) write_whole(out, slot);
  }

  // All chunks of this thread: loads, then what `use` writes with them.
  template <class Use>
  void sweep(Source& out, const RowTrace::Stage& stage, bool stores, Use&& use) const {
    if (stage.by_row == stage.last && stage.slots.empty()) return;
    const uint64_t per_thread = layout_.chunks / layout_.along;
    const uint32_t unroll = layout_.kept ? layout_.unroll : elements_of(stage, 1).unroll(per_thread);
    const Body body = elements_of(stage, unroll);
    const uint64_t round = uint64_t{unroll} * layout_.along;
    if (layout_.kept) {
      out.open_block();
    } else {
      out.plain("#pragma unroll 1\n");  // the compiler would, and take too many registers
      out.open("for (", index_, " r = 0; r < ", number(layout_.chunks), "; r += ", number(round), ")");
    }
    const std::string wanted =
        layout_.chunks != 0 && layout_.chunks % round == 0 ? "" : text("chunk < ", number(layout_.chunks));
    const auto each_chunk = [&](const std::string& condition, auto&& inside) {
      open_chunk(out, unroll, lane(stage));
      if (!condition.empty()) out.open("if (", condition, ")");
      body.decode(out, row_, "chunk");
      body.derive_shared(out);
      inside();
      if (!condition.empty()) out.close();
      out.close();
    };
    if (!layout_.kept) body.declare(out);
    if (!layout_.kept || &stage == &trace_.stages.front())
      each_chunk(wanted, [&] { body.load(out, layout_.kept ? Loads::kept : Loads::all); });
    const std::string live = !stores ? wanted : wanted.empty() ? "live" : "live && " + wanted;
    each_chunk(live, [&] {
      if (layout_.kept) {
        body.declare(out, Loads::passing);
        body.load(out, Loads::passing);
      }
      use(body);
    });
    out.close();
  }

  void open_chunk(Source& out, uint32_t unroll, const std::string& lane) const {
    out.open_unrolled("u", unroll);
    out.line("const ", index_, " chunk = ", layout_.kept ? "" : "r + ", lane, " + u * ", layout_.along, "u;");
  }

  void declare_part(Source& out, uint32_t slot) const {
    out.line(type(slot), " part", slot, "[", layout_.lanes, "];");
    out.open_unrolled("v", layout_.lanes);
    out.line("part", slot, "[v] = ", fold(slot), "::none<", type(slot), ">();");
    out.close();
  }

  void write_joins(Source& out, const RowTrace::Stage& stage, const Body& body) const {
    body.open_lanes(out);
    body.compute(out);
    for (const uint32_t slot : stage.slots)
      out.line("part", slot, "[v] = ", fold(slot), "::join(part", slot, "[v], t", trace_.folded[slot], ");");
    out.close();
  }

  // part<slot> of all threads that share a row to whole<slot> of each of them.
  void write_whole(Source& out, uint32_t slot) const {
    const bool meet = layout_.inner ? layout_.along > 32 : layout_.along > 1;
    if (meet)
      out.line("__shared__ ", type(slot), " shared", slot, "[", layout_.inner ? 8 : block_threads, "];");
    const std::string shared = meet ? text("shared", slot) : text("static_cast<", type(slot), "*>(nullptr)");
    if (layout_.inner) {
      out.open_unrolled("v", layout_.lanes);
      out.line("if (v > 0) part", slot, "[0] = ", fold(slot), "::join(part", slot, "[0], part", slot,
               "[v]);");
      out.close();
      out.line("const ", type(slot), " whole", slot, "[1] = {join_neighbours<", fold(slot), ", ",
               layout_.along, sums() == 0 ? ", true" : "", ">(part", slot, "[0], ", shared, ")};");
      return;
    }
    out.line(type(slot), " whole", slot, "[", layout_.lanes, "];");
    out.open_unrolled("v", layout_.lanes);
    if (meet)
      out.line("whole", slot, "[v] = share_strided<", fold(slot), ", ", layout_.across, ">(part", slot,
               "[v], ", shared, ");");
    else
      out.line("whole", slot, "[v] = part", slot, "[v];");
    out.close();
  }

  void write_rows_anew(Source& out, const Body& body) const {
    body.declare_stores(out);
    body.open_lanes(out);
    body.compute(out);
    body.fill_stores(out);
    for (size_t n = 0; n < sums(); ++n) {
      const std::string sum = text("sum", n, "[u * ", layout_.lanes, " + v]");
      out.line(sum, " = Sum::join(", sum, ", t", trace_.columns[n], ");");
    }
    out.close();
    body.store(out);
  }

  // What this block's threads have added up, joined where rows lie side by side.
  void write_parts(Source& out, const Parts& parts) const {
    const auto row = static_cast<uint64_t>(trace_.space.count(true));
    const Body body(frame_, trace_, layout_.tile(trace_.space, layout_.unroll), 0, 0);
    for (size_t n = 0; n < sums() && layout_.across > 1; ++n)
      out.line("__shared__ ", sum_type(n), " shared_sum", n, "[", block_threads, "];");
    open_chunk(out, layout_.unroll, "rlane");
    body.decode(out, row_, "chunk");
    body.open_lanes(out);
    for (size_t n = 0; n < sums(); ++n) {
      std::string whole = text("sum", n, "[u * ", layout_.lanes, " + v]");
      if (layout_.across > 1)
        whole = text("join_strided<Sum, ", layout_.along, ">(", whole, ", shared_sum", n, ")");
      out.line("const ", sum_type(n), " whole_sum", n, " = ", whole, ";");
      out.line("if (klane == 0 && chunk < ", number(layout_.chunks), ") (",
               frame_.workspace(parts.offsets[n], sum_type(n)), ")[block * ", number(row), " + (",
               body.in_lane(trace_.element), ")] = whole_sum", n, ";");
    }
    out.close();
    out.close();
  }

  // What there is one of for each row.
  void write_of_rows(Source& out, const RowTrace::Stage& stage) const {
    if (stage.first == stage.last) return;
    const Body body(frame_, trace_, layout_.row_tile(trace_.space), stage.first, stage.last);
    out.open("if (live && rlane == 0)");
    body.declare(out);
    body.derive_shared(out);
    body.load(out);
    body.declare_stores(out);
    body.open_lanes(out);
    body.compute(out);
    body.fill_stores(out);
    out.close();
    body.store(out);
    out.close();
  }

  const Frame& frame_;
  const Group& group_;
  RowTrace trace_;
  std::vector<uint32_t> rows_, row_;  // loops over rows, and over the elements of one
  std::string index_;
  RowLayout layout_;
};

}  // namespace

Result<Parts> write_kept_rows(const Frame& frame, Schedule& schedule, const Group& group,
                              const Target& target, uint32_t number, Source& source,
                              std::vector<Step>& steps) {
  RowTrace trace = TN_TRY(trace_rows(frame.fragment, schedule, group));
  const bool inner = order_rows(trace);
  const uint32_t lanes = row_lanes(frame, trace, inner);
  const RowKernel wide(frame, group, trace, inner, lanes), any(frame, group, trace, inner, 1);
  const RowLayout &a = wide.layout(), &b = any.layout();
  if (!group.columns.empty() && !(inner && a.kept && b.kept))
    return Status(TN_UNSUPPORTED, "sums over these rows find no room beside them");
  // Blocks that share a row, in a kernel for each stage, fill the device better.
  if (!a.kept && a.rounds() < target.multiprocessors)
    return Status(TN_UNSUPPORTED, "rows are too few and too long to be folded by a block each");
  Parts parts;
  if (!group.columns.empty())
    parts.slices = std::min<uint64_t>(std::max(a.rounds(), b.rounds()), uint64_t{target.multiprocessors} * 2);
  for (size_t n = 0; n < group.columns.size(); ++n)
    parts.offsets.push_back(schedule.reserve(parts.slices * wide.part_bytes(n)));
  Step step;
  if (lanes > 1) step.wide = wide.write(source, text("step", number, "_wide"), parts);
  step.any = any.write(source, text("step", number, "_any"), parts);
  steps.push_back(std::move(step));
  return parts;
}

}  // namespace tenon::cuda
