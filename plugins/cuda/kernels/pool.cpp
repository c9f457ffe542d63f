// SPDX-License-Identifier: Apache-2.0
// pool.cpp: max_pool and avg_pool: a thread makes a result, or as many neighbouring channels of it as 16 bytes hold where channels
// are neighbours (NHWC).
//
// What to expect: memory is read once and written once, since what windows share comes from L1; a 3 × 3 window of stride 2
// over bf16 costs 9 loads a result where 10 bytes of memory move for it.
// Invariant: the places of a window are visited in their order, so NaN and the first greatest are found as ops.def says.
#include "pool.hpp"

#include "families.hpp"
#include "literal.hpp"
#include "prelude.hpp"

namespace tenon::cuda {

using author::text;

namespace {

Slide slide_of(const NodeView& node, size_t direction, int64_t places, int64_t windows) {
  return {.places = places,
          .windows = windows,
          .kernel = node.integers("kernel")[direction],
          .stride = node.integers("stride")[direction],
          .before = node.integers("pad")[direction]};
}

bool is_gradient(uint32_t op) { return op == TN_OP_max_pool_grad || op == TN_OP_avg_pool_grad; }

// The place of a window's corner, for each of the windows that `window` counts.
Affine corner_of(const Slide& slide, const Affine& window) {
  Affine out;
  out.add(window, slide.stride);
  out.constant -= slide.before;
  return out;
}

// The sums of a kernel that makes windows, and what it makes of each.
class Windows {
 public:
  explicit Windows(const Pool& pool) : pool_(pool), walk_(pool.windows.dims()) {
    const Index index = walk_.index();
    const Affine high = corner_of(pool.high, index[2]), wide = corner_of(pool.wide, index[3]);
    y_ = walk_.add(dot(index, strides_of(pool.windows)));
    x_ = walk_.add(dot({index[0], index[1], high, wide}, strides_of(pool.image)));
    h_ = walk_.add(high);
    w_ = walk_.add(wide);
    walk_.reach(pool.reach(pool.image));
    walk_.close(y_);
  }

  uint32_t lanes() const {
    const uint32_t moved[] = {y_, x_};
    const Dims x = strides_of(pool_.image);
    return walk_.lanes(bytes_of(pool_.image.dtype()), moved, std::span(x).subspan(2));
  }

  Entry write(Source& out, const std::string& name, uint32_t from, uint32_t to, uint32_t lanes) const {
    const uint32_t dtype = pool_.image.dtype();
    const std::string type = stored_type(dtype), computed = register_type(dtype);
    const bool greatest = pool_.op == TN_OP_max_pool;
    return walk_.write(out, name, lanes, [&] {
      out.line(computed, " all[", lanes, "];");
      each(out, lanes, greatest ? text("all[v] = lowest<", computed, ">();") : "all[v] = 0;");
      open_window(out, walk_, pool_, h_, w_, x_);
      out.line(loaded("x", type, bytes_of(dtype), lanes, bound(type, from), "at"));
      each(out, lanes, text("all[v] = ", greatest ? "max" : "add", "(all[v], widen(x.at[v]));"));
      close_loops(out);
      if (!greatest) write_share(out, computed);
      out.line("Lanes<", type, ", ", lanes, "> y;");
      each(out, lanes,
           text("y.at[v] = stored<", type, ">(", greatest ? "all[v]" : "div(all[v], share)", ");"));
      out.line("store<", lanes, ", ", lanes * bytes_of(dtype), ">(static_cast<", type, "*>(p.at[", to,
               "]) + (", walk_.at(y_), "), y);");
    });
  }

 private:
  static void each(Source& out, uint32_t lanes, const std::string& line) {
    out.open_unrolled("v", lanes);
    out.line(line);
    out.close();
  }
  void write_share(Source& out, const std::string& type) const {
    if (pool_.count_pad) {
      out.line("const ", type, " share = static_cast<", type, ">(", pool_.window(), "ull);");
      return;
    }
    out.line("const ", type, " share = static_cast<", type,
             ">(static_cast<i64>(r1 > r0 ? r1 - r0 : 0) * (s1 > s0 ? s1 - s0 : 0));");
  }

  const Pool& pool_;
  Walk walk_;
  uint32_t y_ = 0, x_ = 0, h_ = 0, w_ = 0;
};

}  // namespace

Pool::Pool(const FragmentView& fragment)
    : op(fragment.nodes()[0].op),
      image(is_gradient(op) ? fragment.output(0) : NodeView(fragment, 0).in(0)),
      windows(is_gradient(op) ? NodeView(fragment, 0).in(0) : fragment.output(0)) {
  const NodeView node(fragment, 0);
  high = slide_of(node, 0, image.dims()[2], windows.dims()[2]);
  wide = slide_of(node, 1, image.dims()[3], windows.dims()[3]);
  count_pad = author::attribute_i64(node.raw(), "count_pad").value_or(0) != 0;
}

int64_t Pool::reach(TensorView tensor) const noexcept {
  const auto steps = tensor.strides();
  const auto along = [](const Slide& slide, int64_t step) {
    return (slide.places + slide.kernel + slide.before + slide.windows + slide.stride) * (step + 1);
  };
  return along(high, steps[2]) + along(wide, steps[3]);
}

Dims strides_of(TensorView tensor) {
  const auto steps = tensor.strides();
  return {steps.begin(), steps.begin() + tensor.rank()};
}

std::string bound(const std::string& type, uint32_t binding) {
  return text("static_cast<const ", type, "*>(p.at[", binding, "])");
}

std::string loaded(const char* name, const std::string& type, uint32_t bytes, uint32_t lanes,
                   const std::string& from, const std::string& at) {
  return text("const Lanes<", type, ", ", lanes, "> ", name, " = load<", lanes, ", ",
              std::min<uint32_t>(lanes * bytes, 16), ", false>(", from, " + (", at, "));");
}

void open_window(Source& out, const Walk& walk, const Pool& pool, uint32_t h, uint32_t w, uint32_t corner) {
  const char* const n = walk.number();
  const Dims steps = strides_of(pool.image);
  const auto clip = [&](const char* at, const char* begin, const char* end, const Slide& slide,
                        uint32_t sum) {
    out.line("const ", n, " ", at, " = ", walk.at(sum), ", ", begin, " = window_begin(", at, "), ", end,
             " = window_end<", n, ">(", at, ", ", slide.kernel, ", ", slide.places, ");");
  };
  clip("h", "r0", "r1", pool.high, h);
  clip("w", "s0", "s1", pool.wide, w);
  out.open("for (", n, " r = r0; r < r1; ++r)");
  out.open("for (", n, " s = s0; s < s1; ++s)");
  out.line("const ", n, " at = ", walk.at(corner), " + r * ", steps[2], " + s * ", steps[3], ";");
}

void open_covering(Source& out, const Walk& walk, const Pool& pool, uint32_t h, uint32_t w) {
  const char* const n = walk.number();
  const auto cover = [&](const char* at, const char* begin, const char* end, const Slide& slide,
                         uint32_t sum) {
    out.line("const ", n, " ", at, " = ", walk.at(sum), ", ", begin, " = first_window<", n, ">(", at, ", ",
             slide.kernel, ", ", slide.stride, "), ", end, " = last_window<", n, ">(", at, ", ", slide.stride,
             ", ", slide.windows, ");");
  };
  cover("h", "q0", "q1", pool.high, h);
  cover("w", "k0", "k1", pool.wide, w);
  out.open("for (", n, " q = q0; q < q1; ++q)");
  out.open("for (", n, " k = k0; k < k1; ++k)");
}

void close_loops(Source& out) {
  out.close();
  out.close();
}

bool takes_pool(const FragmentView& fragment) {
  return std::ranges::any_of(fragment.nodes(), [](const tn_node& node) {
    return node.op != TN_OP_global_pool && author::op_row(node.op).family == "POOL";
  });
}

Status check_pool(const FragmentView& fragment) {
  TN_TRY(check_alone(fragment));
  const Pool pool(fragment);
  if (std::max(pool.high.stride, pool.wide.stride) < int64_t{1} << 31) return {};
  return NodeView(fragment, 0)
      .unsupported(text("strides of ", pool.high.stride, " and ", pool.wide.stride,
                        " are past 2^31: where there is one window, any stride will do"));
}

Result<Program> write_pool(const FragmentView& fragment, const Target&) {
  Program program;
  Source out;
  open_source(out, fragment.binding_count(), pool_source());
  const Pool pool(fragment);
  if (fragment.output(0).elements() != 0 && is_gradient(pool.op)) {
    write_pool_gradient(fragment, pool, out, program);
  } else if (fragment.output(0).elements() != 0) {
    const Windows kernel(pool);
    const uint32_t from = binding_of(fragment, 0), to = output_binding(fragment), lanes = kernel.lanes();
    Step step;
    out.line();
    if (lanes > 1) step.wide = kernel.write(out, "step0_wide", from, to, lanes);
    step.any = kernel.write(out, "step0_any", from, to, 1);
    program.steps.push_back(std::move(step));
  }
  close_source(out);
  program.source = out.text();
  program.workspace_bytes = workspace_of_pool(fragment, {});
  return program;
}

uint64_t workspace_of_pool(const FragmentView& fragment, const Target&) {
  return fragment.nodes()[0].op == TN_OP_max_pool_grad ? winners_bytes(fragment) : 0;
}

}  // namespace tenon::cuda
