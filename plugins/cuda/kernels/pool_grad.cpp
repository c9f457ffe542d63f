// SPDX-License-Identifier: Apache-2.0
// pool_grad.cpp: max_pool_grad and avg_pool_grad: each place of the image gathers from the windows that cover it.
//
// max_pool_grad takes two steps: the first notes in the workspace which place of its window wins, a byte for windows of up to
// 255 places; the second adds up the dy of those windows that the place has won. So the work is that of the forward pass and, for
// each place, one look at each window that covers it; a gather from x alone would look at every place of every such window.
// Invariant: a sum's order is that of the windows, so equal launches give equal bits; nothing is atomic.
#include "literal.hpp"
#include "pool.hpp"

namespace tenon::cuda {

using author::text;

namespace {

// How a winner's number within its window is kept; the largest number says that there is none.
uint32_t winner_dtype(const Pool& pool) {
  if (pool.window() < 0xFF) return TN_DTYPE_u8;
  return pool.window() < 0xFFFF ? TN_DTYPE_u16 : TN_DTYPE_u64;
}

// A place as counted from the first window's first corner.
Affine from_first(const Slide& slide, const Affine& place) {
  Affine out = place;
  out.constant += slide.before;
  return out;
}

class Gradient {
 public:
  Gradient(const FragmentView& fragment, const Pool& pool)
      : fragment_(fragment),
        pool_(pool),
        windows_(pool.windows.dims()),
        image_(pool.image.dims()),
        winners_(dense_strides_like(pool.windows.dims(), strides_of(pool.image))) {
    lay_windows();
    lay_image();
  }

  void write(Source& out, Program& program) const {
    if (greatest()) add_step(out, program, window_lanes(), &Gradient::write_winners);
    add_step(out, program, image_lanes(), &Gradient::write_gather);
  }

 private:
  using Writer = Entry (Gradient::*)(Source&, const std::string&, uint32_t) const;

  bool greatest() const { return pool_.op == TN_OP_max_pool_grad; }
  uint32_t dtype() const { return pool_.image.dtype(); }
  std::string type() const { return stored_type(dtype()); }
  // x, which lies in its own way; dx gives the dims and is what the image's strides are of.
  TensorView x() const { return NodeView(fragment_, 0).in(1); }
  std::string winner_type() const { return stored_type(winner_dtype(pool_)); }
  std::string winners() const {
    return text("static_cast<", winner_type(), "*>(p.at[", fragment_.binding_count(), "])");
  }

  void lay_windows() {
    const Index index = windows_.index();
    Affine high, wide;
    high.add(index[2], pool_.high.stride).constant -= pool_.high.before;
    wide.add(index[3], pool_.wide.stride).constant -= pool_.wide.before;
    won_ = windows_.add(dot(index, winners_));
    corner_ = windows_.add(dot({index[0], index[1], high, wide}, strides_of(greatest() ? x() : pool_.image)));
    top_ = windows_.add(high);
    left_ = windows_.add(wide);
    windows_.reach(pool_.reach(greatest() ? x() : pool_.image) + pool_.window());
    windows_.close(won_);
  }

  void lay_image() {
    const Index index = image_.index();
    dx_ = image_.add(dot(index, strides_of(pool_.image)));
    dy_ = image_.add(dot({index[0], index[1], {}, {}}, strides_of(pool_.windows)));
    if (greatest()) winner_ = image_.add(dot({index[0], index[1], {}, {}}, winners_));
    h_ = image_.add(from_first(pool_.high, index[2]));
    w_ = image_.add(from_first(pool_.wide, index[3]));
    image_.reach(pool_.reach(pool_.windows) + pool_.reach(pool_.image) + pool_.window());
    image_.close(dx_);
  }

  uint32_t window_lanes() const {
    const uint32_t moved[] = {won_, corner_};
    const Dims steps = strides_of(x());
    return windows_.lanes(bytes_of(dtype()), moved, std::span(steps).subspan(2));
  }
  uint32_t image_lanes() const {
    std::vector<uint32_t> moved{dx_, dy_};
    Dims steps = strides_of(pool_.windows);
    steps.erase(steps.begin(), steps.begin() + 2);
    if (greatest()) {
      moved.push_back(winner_);
      steps.insert(steps.end(), winners_.begin() + 2, winners_.end());
    }
    return image_.lanes(bytes_of(dtype()), moved, steps);
  }

  void add_step(Source& out, Program& program, uint32_t lanes, Writer writer) const {
    const std::string name = text("step", program.steps.size());
    Step step;
    out.line();
    if (lanes > 1) step.wide = (this->*writer)(out, name + "_wide", lanes);
    step.any = (this->*writer)(out, name + "_any", 1);
    program.steps.push_back(std::move(step));
  }

  Entry write_winners(Source& out, const std::string& name, uint32_t lanes) const {
    const std::string kept = winner_type(), computed = register_type(dtype());
    return windows_.write(out, name, lanes, [&] {
      out.line(computed, " best[", lanes, "];");
      out.line("Lanes<", kept, ", ", lanes, "> won;");
      out.open_unrolled("v", lanes);
      out.line("won.at[v] = Limits<", kept, ">::most;");
      out.close();
      write_contest(out, lanes);
      out.line("store<", lanes, ", ", winner_bytes(lanes), ">(", winners(), " + (", windows_.at(won_),
               "), won);");
    });
  }

  void write_contest(Source& out, uint32_t lanes) const {
    Pool over = pool_;
    over.image = x();
    open_window(out, windows_, over, top_, left_, corner_);
    out.line(loaded("x", type(), bytes_of(dtype()), lanes, bound(type(), binding_of(fragment_, 1)), "at"));
    out.open_unrolled("v", lanes);
    out.open("if (won.at[v] == Limits<", winner_type(), ">::most || wins(widen(x.at[v]), best[v]))");
    out.line("best[v] = widen(x.at[v]);");
    out.line("won.at[v] = static_cast<", winner_type(), ">(r * ", pool_.wide.kernel, " + s);");
    out.close();
    out.close();
    close_loops(out);
  }

  Entry write_gather(Source& out, const std::string& name, uint32_t lanes) const {
    const std::string computed = register_type(dtype());
    return image_.write(out, name, lanes, [&] {
      out.line(computed, " all[", lanes, "];");
      out.open_unrolled("v", lanes);
      out.line("all[v] = 0;");
      out.close();
      open_covering(out, image_, pool_, h_, w_);
      out.line(loaded("dy", type(), bytes_of(dtype()), lanes, bound(type(), binding_of(fragment_, 0)),
                      stepped(dy_, strides_of(pool_.windows))));
      if (greatest())
        gather_won(out, lanes);
      else
        gather_shares(out, lanes);
      close_loops(out);
      write_sums(out, lanes);
    });
  }

  // Window (q, k) of the sum.
  std::string stepped(uint32_t sum, const Dims& steps) const {
    return text(image_.at(sum), " + q * ", steps[2], " + k * ", steps[3]);
  }

  void gather_won(Source& out, uint32_t lanes) const {
    const char* const n = image_.number();
    out.line(loaded("won", winner_type(), bytes_of(winner_dtype(pool_)), lanes, winners(),
                    stepped(winner_, winners_)));
    out.line("const ", n, " mine = (h - q * ", pool_.high.stride, ") * ", pool_.wide.kernel, " + (w - k * ",
             pool_.wide.stride, ");");
    out.open_unrolled("v", lanes);
    // A sum that begins at 0 is never -0, so adding 0 changes nothing; where a part of dy would be skipped, the compiler loads
    // it in parts.
    out.line("all[v] = add(all[v], won.at[v] == static_cast<", winner_type(),
             ">(mine) ? widen(dy.at[v]) : static_cast<", register_type(dtype()), ">(0));");
    out.close();
  }

  void gather_shares(Source& out, uint32_t lanes) const {
    const std::string computed = register_type(dtype()), n = image_.number();
    if (!pool_.count_pad) {
      const auto covers = [&](const char* window, const Slide& slide) {
        return text("window_covers<", n, ">(", window, " * ", slide.stride, " - ", slide.before, ", ",
                    slide.kernel, ", ", slide.places, ")");
      };
      out.line("const ", computed, " share = static_cast<", computed, ">(static_cast<i64>(",
               covers("q", pool_.high), ") * ", covers("k", pool_.wide), ");");
    } else {
      out.line("const ", computed, " share = static_cast<", computed, ">(", pool_.window(), "ull);");
    }
    out.open_unrolled("v", lanes);
    out.line("all[v] = add(all[v], div(widen(dy.at[v]), share));");
    out.close();
  }

  void write_sums(Source& out, uint32_t lanes) const {
    out.line("Lanes<", type(), ", ", lanes, "> dx;");
    out.open_unrolled("v", lanes);
    out.line("dx.at[v] = stored<", type(), ">(all[v]);");
    out.close();
    out.line("store<", lanes, ", ", lanes * bytes_of(dtype()), ">(static_cast<", type(), "*>(p.at[",
             output_binding(fragment_), "]) + (", image_.at(dx_), "), dx);");
  }

  uint32_t winner_bytes(uint32_t lanes) const {
    return std::min<uint32_t>(lanes * bytes_of(winner_dtype(pool_)), 16);
  }

  const FragmentView& fragment_;
  const Pool& pool_;
  Walk windows_, image_;
  Dims winners_;  // strides of what the first step leaves
  uint32_t won_ = 0, corner_ = 0, top_ = 0, left_ = 0;
  uint32_t dx_ = 0, dy_ = 0, winner_ = 0, h_ = 0, w_ = 0;
};

}  // namespace

void write_pool_gradient(const FragmentView& fragment, const Pool& pool, Source& out, Program& program) {
  Gradient(fragment, pool).write(out, program);
}

uint64_t winners_bytes(const FragmentView& fragment) {
  const Pool pool(fragment);
  if (pool.image.elements() == 0) return 0;
  return (author::dtype_bytes(winner_dtype(pool), pool.windows.elements()) + 255) / 256 * 256;
}

}  // namespace tenon::cuda
