// SPDX-License-Identifier: Apache-2.0
// reduce.cpp: a kernel that folds some dims of what it computes, and computes on what it folded.
//
// A block is 256 threads: `across` of them side by side over kept elements, `along` over the folded ones. Where memory runs
// along the folded dims ("inner"), neighbouring threads share an output; where it runs along the kept ones ("outer"), they
// have one each and the block's rows of threads share. With too few outputs to fill the device, several blocks fold slices
// of each, and a second kernel folds the slices in their order.
// Invariant: the order in which parts are joined depends on shapes and target alone.
#include "expression.hpp"
#include "kernels.hpp"
#include "literal.hpp"

#include <algorithm>
#include <bit>

namespace tenon::cuda {

using author::text;

namespace {

struct Geometry {
  bool inner = true;
  uint32_t lanes = 1, across = 1, along = 1;
  uint64_t kept = 1, folded = 1;  // chunks of each
  uint64_t slices = 1;

  uint64_t blocks() const noexcept { return std::max<uint64_t>((kept + across - 1) / across, 1) * slices; }
};

uint32_t power_above(uint64_t x, uint32_t most) {
  return static_cast<uint32_t>(std::min<uint64_t>(std::bit_ceil(std::max<uint64_t>(x, 1)), most));
}

class Reduction {
 public:
  Reduction(const Frame& frame, const Group& group, const Trace& trace, const Target& target)
      : frame_(frame),
        group_(group),
        trace_(trace),
        target_(target),
        kept_(trace.space.loops(false)),
        folded_(trace.space.loops(true)),
        index_(Body::index_type(trace)),
        inner_(runs_inner()) {}

  uint32_t lanes() const {
    if (inner_) {
      return folded_.empty() ? 1
                             : choose_lanes(frame_, trace_, folded_.back(), 0, trace_.folded_values, false,
                                            folded_.size() == 1);
    }
    return choose_lanes(frame_, trace_, kept_.back(), 0, trace_.values.size(), true, false);
  }

  Geometry geometry(uint32_t lanes) const {
    Geometry out{.inner = inner_, .lanes = lanes};
    out.kept = static_cast<uint64_t>(trace_.space.count(false)) / (inner_ ? 1 : lanes);
    out.folded = static_cast<uint64_t>(trace_.space.count(true)) / (inner_ ? lanes : 1);
    if (inner_) {
      out.along = power_above((out.folded + 3) / 4, block_threads);
    } else {
      out.across = power_above(out.kept, block_threads / power_above(out.folded / 4, 8));
      out.along = block_threads / out.across;
    }
    out.across = block_threads / out.along;
    return out;
  }

  // How many blocks share an output: enough to fill the device, each with eight rounds of work.
  uint64_t slices(const Geometry& g) const {
    const uint64_t blocks = g.blocks(), wanted = uint64_t{target_.multiprocessors} * 4;
    if (blocks * 2 >= wanted) return 1;
    const uint64_t most = g.folded / (uint64_t{g.along} * 8);
    return std::max<uint64_t>(std::min((wanted + blocks - 1) / blocks, most), 1);
  }

  Entry write(Source& out, const std::string& name, const Geometry& g,
              const std::vector<uint64_t>& parts) const {
    out.open("TN_ENTRY(", name, ", Addresses)");
    write_place(out, g);
    write_fold(out, g);
    write_join(out, g);
    out.open("if (live && rlane == 0)");
    if (g.slices > 1)
      write_parts(out, g, parts);
    else
      write_results(out, g);
    out.close();
    out.close();
    return {.name = name, .blocks = static_cast<uint32_t>(g.blocks()), .threads = block_threads};
  }

  // The second kernel: folds the slices that `first` left in `parts`.
  Entry write_last(Source& out, const std::string& name, const Geometry& first,
                   const std::vector<uint64_t>& parts) const {
    Geometry g{.kept = static_cast<uint64_t>(trace_.space.count(false)), .folded = first.slices};
    g.inner = g.kept < 64;
    g.along = power_above(g.folded, g.inner ? block_threads : 8);
    g.across = block_threads / g.along;
    out.open("TN_ENTRY(", name, ", Addresses)");
    write_place(out, g);
    for (size_t n = 0; n < group_.reductions.size(); ++n) {
      declare_part(out, n, 1);
      const std::string from = frame_.workspace(parts[n], "const " + type(n));
      out.open("for (", index_, " s = rlane; live && s < ", g.folded, "u; s += ", g.along, "u)");
      out.line("part", n, "[0] = ", fold(n), "::join(part", n, "[0], (", from, ")[s * ", number(g.kept),
               " + k]);");
      out.close();
    }
    write_join(out, g);
    out.open("if (live && rlane == 0)");
    write_results(out, g);
    out.close();
    out.close();
    return {.name = name, .blocks = static_cast<uint32_t>(g.blocks()), .threads = block_threads};
  }

  uint64_t part_bytes(size_t n) const {
    const uint32_t from = input_dtype(n);
    return op(n) == TN_OP_argmax ? 16 : is_half(from) ? 4 : bytes_of(from);
  }

 private:
  // Whether the shortest step of what is read most is along a folded dim.
  bool runs_inner() const {
    if (kept_.empty()) return true;
    if (folded_.empty()) return false;
    const Affine& lead = lead_of(trace_);
    const auto step = [&](uint32_t v) {
      const int64_t factor = lead.factor(v);
      return factor <= 0 ? INT64_MAX : factor;
    };
    return step(folded_.back()) <= step(kept_.back());
  }

 public:
  // The sum of the load that walks most loops.
  static const Affine& lead_of(const Trace& trace) {
    static const Affine none;
    const Affine* best = &none;
    for (size_t i = 0; i < trace.folded_values; ++i) {
      const Value& value = trace.values[i];
      if (value.kind == Value::Kind::load && value.sum.terms.size() > best->terms.size()) best = &value.sum;
    }
    return *best;
  }

 private:
  uint32_t op(size_t n) const { return frame_.fragment.nodes()[group_.reductions[n]].op; }
  uint32_t input_dtype(size_t n) const {
    return frame_.fragment.tensor(frame_.fragment.nodes()[group_.reductions[n]].inputs[0]).dtype();
  }
  std::string fold(size_t n) const { return fold_of(op(n)); }
  std::string type(size_t n) const {
    const std::string plain = register_type(input_dtype(n));
    return op(n) == TN_OP_argmax ? "Found<" + plain + ">" : plain;
  }
  std::string number(uint64_t value) const { return text(value, index_[1] == '6' ? "ull" : "u"); }
  // Which loop lanes walk.
  Tile tile(const Geometry& g) const {
    if (g.lanes == 1) return {};
    return {.lanes = g.lanes, .variable = g.inner ? folded_.back() : kept_.back()};
  }

  void declare_part(Source& out, size_t n, uint32_t lanes) const {
    out.line(type(n), " part", n, "[", lanes, "];");
    out.open_unrolled("v", lanes);
    out.line("part", n, "[v] = ", fold(n), "::none<", type(n), ">();");
    out.close();
  }

  // Which kept chunk and which slice this thread works on.
  void write_place(Source& out, const Geometry& g) const {
    const char* const fast = g.inner ? "rlane" : "klane";
    const char* const slow = g.inner ? "klane" : "rlane";
    const uint32_t width = g.inner ? g.along : g.across;
    out.line("[[maybe_unused]] const u32 ", fast, " = threadIdx.x % ", width, "u, ", slow,
             " = threadIdx.x / ", width, "u;");
    std::string block = text("static_cast<", index_, ">(blockIdx.x)");
    if (g.slices > 1) {
      out.line("const ", index_, " slice = ", block, " % ", number(g.slices), ";");
      block = text("(", block, " / ", number(g.slices), ")");
    }
    out.line("const ", index_, " k = ", block, " * ", g.across, "u + klane;");
    out.line("const bool live = k < ", number(g.kept), ";");
    const Tile walked = g.inner ? Tile{} : tile(g);
    Body(frame_, trace_, walked, 0, 0).decode(out, kept_, "k");
  }

  void write_fold(Source& out, const Geometry& g) const {
    for (size_t n = 0; n < group_.reductions.size(); ++n) declare_part(out, n, g.lanes);
    const uint64_t per_slice = (g.folded + g.slices - 1) / g.slices;
    Tile walked = tile(g);
    walked.steady = kept_;
    const Body chunk(frame_, trace_, walked, 0, trace_.folded_values);
    walked.unroll = chunk.unroll(per_slice / g.along);
    const Body body(frame_, trace_, walked, 0, trace_.folded_values);
    body.declare(out);
    if (body.shares()) {
      out.open("if (live)");
      body.load_shared(out);
      out.close();
    }
    std::string begin = "0", end = number(g.folded);
    if (g.slices > 1) {
      begin = text("slice * ", number(per_slice));
      out.line("const ", index_, " after = ", begin, " + ", number(per_slice), ";");
      out.line("const ", index_, " end = after < ", end, " ? after : ", end, ";");
      end = "end";
    }
    out.open("for (", index_, " r = ", begin, " + rlane; live && r < ", end,
             "; r += ", number(walked.unroll * g.along), ")");
    const auto open = [&] {
      out.open_unrolled("u", walked.unroll);
      out.line("const ", index_, " chunk = r + u * ", g.along, "u;");
      out.open("if (chunk < ", end, ")");
      body.decode(out, folded_, "chunk");
      body.derive_shared(out);
    };
    open();
    body.load(out);
    out.close();
    out.close();
    open();
    write_joins(out, body);
    out.close();
    out.close();
    out.close();
    write_tail(out, g);
  }

  // The parts of a chunk, each lane to its own.
  void write_joins(Source& out, const Body& body) const {
    body.open_lanes(out);
    body.compute(out);
    for (size_t n = 0; n < group_.reductions.size(); ++n) {
      std::string value = text("t", trace_.folded[n]);
      if (op(n) == TN_OP_argmax)
        value = text(type(n), "{", value, ", static_cast<i64>(", body.in_lane(trace_.element), ")}");
      out.line("part", n, "[v] = ", fold(n), "::join(part", n, "[v], ", value, ");");
    }
    out.close();
  }

  // What a single folded loop leaves behind its last whole chunk.
  void write_tail(Source& out, const Geometry& g) const {
    const auto count = static_cast<uint64_t>(trace_.space.count(true)), begin = g.folded * g.lanes;
    if (!g.inner || begin == count) return;
    const Body one(frame_, trace_, {}, 0, trace_.folded_values);
    const std::string last = g.slices > 1 ? text(" && slice == ", number(g.slices - 1)) : "";
    out.open("for (", index_, " r = ", number(begin), " + rlane; live", last, " && r < ", number(count),
             "; r += ", g.along, "u)");
    out.line("[[maybe_unused]] const int u = 0;");
    one.declare(out);
    one.decode(out, folded_, "r");
    one.derive_shared(out);
    one.load(out);
    write_joins(out, one);
    out.close();
  }

  // part<n> of all threads that share an output to whole<n> of the first of them.
  void write_join(Source& out, const Geometry& g) const {
    const bool meet = g.inner ? g.along > 32 : g.along > 1;
    for (size_t n = 0; n < group_.reductions.size(); ++n) {
      if (meet) out.line("__shared__ ", type(n), " shared", n, "[", g.inner ? 8 : block_threads, "];");
      const std::string shared = meet ? text("shared", n) : text("static_cast<", type(n), "*>(nullptr)");
      if (g.inner) {
        out.open_unrolled("v", g.lanes);
        out.line("if (v > 0) part", n, "[0] = ", fold(n), "::join(part", n, "[0], part", n, "[v]);");
        out.close();
        out.line("const ", type(n), " whole", n, "[1] = {join_neighbours<", fold(n), ", ", g.along, ">(part",
                 n, "[0], ", shared, ")};");
        continue;
      }
      out.line(type(n), " whole", n, "[", g.lanes, "];");
      out.open_unrolled("v", g.lanes);
      if (meet)
        out.line("whole", n, "[v] = join_strided<", fold(n), ", ", g.across, ">(part", n, "[v], ", shared,
                 ");");
      else
        out.line("whole", n, "[v] = part", n, "[v];");
      out.close();
    }
  }

  void write_parts(Source& out, const Geometry& g, const std::vector<uint64_t>& parts) const {
    const uint32_t lanes = g.inner ? 1 : g.lanes;
    const auto kept = static_cast<uint64_t>(trace_.space.count(false));
    out.open_unrolled("v", lanes);
    for (size_t n = 0; n < group_.reductions.size(); ++n) {
      out.line("(", frame_.workspace(parts[n], type(n)), ")[slice * ", number(kept), " + k * ", lanes,
               "u + v] = whole", n, "[v];");
    }
    out.close();
  }

  void write_results(Source& out, const Geometry& g) const {
    const Body body(frame_, trace_, g.inner ? Tile{} : tile(g), trace_.folded_values, trace_.values.size());
    out.line("[[maybe_unused]] const int u = 0;");
    body.declare(out);
    body.derive_shared(out);
    body.load(out);
    body.declare_stores(out);
    body.open_lanes(out);
    body.compute(out);
    body.fill_stores(out);
    out.close();
    body.store(out);
  }

  const Frame& frame_;
  const Group& group_;
  const Trace& trace_;
  const Target& target_;
  std::vector<uint32_t> kept_, folded_;
  std::string index_;
  bool inner_;
};

}  // namespace

// The loops stay as they are, so that they count the sums as the parts lie.
Status write_column_sums(const Frame& frame, const Group& group, const Parts& parts, const Target& target,
                         uint32_t number, Source& source, std::vector<Step>& steps) {
  const Trace traced = TN_TRY(trace(frame.fragment, frame.schedule, group));
  const Reduction kernel(frame, group, traced, target);
  const Geometry blocks{.slices = parts.slices};
  steps.push_back(
      {.wide = {}, .any = kernel.write_last(source, text("step", number, "_last"), blocks, parts.offsets)});
  return {};
}

void write_reduction(const Frame& frame, Schedule& schedule, const Group& group, Trace& trace,
                     const Target& target, uint32_t number, Source& source, std::vector<Step>& steps) {
  const Affine lead = Reduction::lead_of(trace);
  trace.space.simplify(lead, trace.sums());
  const Reduction kernel(frame, group, trace, target);
  const uint32_t lanes = kernel.lanes();
  Geometry wide = kernel.geometry(lanes), any = kernel.geometry(1);
  wide.slices = any.slices = kernel.slices(wide);
  std::vector<uint64_t> parts(group.reductions.size());
  for (size_t n = 0; n < parts.size() && wide.slices > 1; ++n)
    parts[n] = schedule.reserve(wide.slices * static_cast<uint64_t>(trace.space.count(false)) *
                                kernel.part_bytes(n));
  Step step;
  if (lanes > 1) step.wide = kernel.write(source, text("step", number, "_wide"), wide, parts);
  step.any = kernel.write(source, text("step", number, "_any"), any, parts);
  steps.push_back(std::move(step));
  if (wide.slices == 1) return;
  steps.push_back({.wide = {}, .any = kernel.write_last(source, text("step", number, "_last"), wide, parts)});
}

}  // namespace tenon::cuda
