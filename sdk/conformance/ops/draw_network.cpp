// SPDX-License-Identifier: Apache-2.0
// draw_network.cpp: shapes of convolutions, pooling, losses, attention and indexing.
#include "conformance/ops/draw.hpp"

#include <algorithm>

namespace tenon::conform {

namespace {

// One dim of an image under a sliding window.
struct Window {
  int64_t size, kernel, stride, dilation, before, after;
  int64_t count() const noexcept {
    return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

Window draw_window(Draw& draw, bool pooled) {
  Window out{};
  out.kernel = draw.choices.between(1, 4);
  out.stride = draw.choices.between(1, 3);
  out.dilation = pooled ? 1 : draw.choices.between(1, 2);
  // A pool's padding is smaller than its window, so that no window is empty.
  out.before = draw.choices.between(0, std::min<int64_t>(out.kernel - 1, 2));
  out.after = draw.choices.between(0, std::min<int64_t>(out.kernel - 1, 2));
  out.size = out.dilation * (out.kernel - 1) + 1 + static_cast<int64_t>(draw.choices.below(9));
  return out;
}

// Of labels and indices.
uint32_t index_dtype(Draw& draw) { return draw.choices.pick<uint32_t>({TN_DTYPE_i64, TN_DTYPE_i32}); }

}  // namespace

void draw_conv(Draw& draw) {
  const Window high = draw_window(draw, false), wide = draw_window(draw, false);
  // One of four has a group for each channel, as mobile networks do, and plugins have kernels for that alone.
  const bool depthwise = draw.choices.chance(4);
  const int64_t groups = draw.choices.between(1, depthwise ? 12 : 3), batch = draw.choices.between(1, 3);
  const int64_t in = depthwise ? groups : groups * draw.choices.between(1, 4),
                out = depthwise ? groups : groups * draw.choices.between(1, 4);
  const std::vector<int64_t> x = {batch, in, high.size, wide.size},
                             w = {out, in / groups, high.kernel, wide.kernel},
                             y = {batch, out, high.count(), wide.count()};
  draw.integer("groups", groups);
  draw.integers("stride", {high.stride, wide.stride});
  draw.integers("dilation", {high.dilation, wide.dilation});
  draw.integers("pad", {high.before, wide.before, high.after, wide.after});
  switch (draw.row.shape) {
    case ShapeRule::CONV_DATA:
      draw.integers("input_shape", x);
      draw.input(draw.subject, y, Values::tame);
      draw.input(draw.subject, w, Values::tame);
      draw.output(draw.subject, x);
      return;
    case ShapeRule::CONV_WEIGHT:
      draw.integers("weight_shape", w);
      draw.input(draw.subject, x, Values::tame);
      draw.input(draw.subject, y, Values::tame);
      draw.output(draw.subject, w);
      return;
    default:
      draw.input(draw.subject, x, Values::tame);
      draw.input(draw.subject, w, Values::tame);
      draw.output(draw.subject, y);
  }
}

void draw_pool(Draw& draw) {
  const Window high = draw_window(draw, true), wide = draw_window(draw, true);
  const int64_t batch = draw.choices.between(1, 3), channels = draw.choices.between(1, 5);
  const std::vector<int64_t> x = {batch, channels, high.size, wide.size},
                             y = {batch, channels, high.count(), wide.count()};
  draw.integers("kernel", {high.kernel, wide.kernel});
  draw.integers("stride", {high.stride, wide.stride});
  draw.integers("pad", {high.before, wide.before, high.after, wide.after});
  const bool backward = draw.row.shape == ShapeRule::POOL_GRAD;
  if (draw.takes("input_shape")) draw.integers("input_shape", x);
  if (backward) draw.input(draw.subject, y, Values::tame);
  if (!backward || draw.row.inputs_min == 2) draw.input(draw.subject, x);
  draw.output(draw.subject, backward ? x : y);
}

void draw_global(Draw& draw) {
  const std::vector<int64_t> x = draw.dims(4);
  draw.input(draw.subject, x);
  draw.output(draw.subject, {x[0], x[1], 1, 1});
}

void draw_loss(Draw& draw) {
  const int64_t rows = draw.dim(300), classes = draw.dim(2000);
  const bool backward = draw.row.shape == ShapeRule::SAME;
  draw.input(draw.subject, {rows, classes}, Values::tame);
  Operand& labels = draw.input(index_dtype(draw), {rows}, Values::index);
  labels.bound = classes;
  // Half of the time an ignored label is one that occurs.
  draw.integer("ignore_index", draw.choices.chance(2) ? draw.choices.between(0, classes - 1) : -100);
  if (backward) {
    draw.input(TN_DTYPE_f32, {rows}, Values::tame).derived = true;
    draw.input(TN_DTYPE_f32, {rows}, Values::tame);
    draw.output(draw.subject, {rows, classes});
  } else {
    draw.output(TN_DTYPE_f32, {rows});
    draw.output(TN_DTYPE_f32, {rows});
  }
}

void draw_attention(Draw& draw) {
  const int64_t batch = draw.choices.between(1, 2), heads = draw.choices.between(1, 3),
                queries = draw.choices.between(1, 20), keys = draw.choices.between(1, 20);
  // What hardware has kernels for comes in multiples of 8, what is written by hand takes any.
  const int64_t width = draw.choices.chance(2) ? 8 * draw.choices.between(1, 8) : draw.choices.between(1, 24);
  const std::vector<int64_t> q = {batch, heads, queries, width}, k = {batch, heads, keys, width};
  const bool backward = draw.row.outputs == 3, masked = draw.choices.chance(2);
  if (backward) draw.input(draw.subject, q, Values::tame);
  draw.input(draw.subject, q, Values::tame);
  draw.input(draw.subject, k, Values::tame);
  draw.input(draw.subject, k, Values::tame);
  if (backward) {
    draw.input(draw.subject, q).derived = true;
    draw.input(TN_DTYPE_f32, {batch, heads, queries}).derived = true;
  }
  if (masked) draw.input(draw.subject, {batch, heads, queries, keys}, Values::mask);
  draw.real("scale", draw.choices.pick({1.0, 0.25, 0.5}));
  if (backward) {
    draw.output(draw.subject, q);
    draw.output(draw.subject, k);
    draw.output(draw.subject, k);
  } else {
    draw.output(draw.subject, q);
    draw.output(TN_DTYPE_f32, {batch, heads, queries});
  }
}

void draw_embedding(Draw& draw) {
  const int64_t rows = draw.dim(200), width = draw.dim(300);
  std::vector<int64_t> dims = draw.any_dims(0, 2);
  const std::vector<int64_t> table = {rows, width};
  Operand& indices = draw.input(index_dtype(draw), dims, Values::index);
  indices.bound = rows;
  dims.push_back(width);
  const bool backward = draw.row.shape == ShapeRule::EMBEDDING_GRAD;
  if (backward) draw.integer("rows", rows);
  draw.input(draw.subject, backward ? dims : table);
  draw.output(draw.subject, backward ? table : dims);
}

void draw_one_hot(Draw& draw) {
  const int64_t classes = draw.dim(100);
  std::vector<int64_t> dims = draw.any_dims(0, 3);
  Operand& indices = draw.input(draw.subject, dims, Values::index);
  indices.bound = classes;
  draw.integer("classes", classes);
  const auto known = all_dtypes();
  const uint32_t to = known[draw.choices.below(known.size())];
  draw.dtype("dtype", to);
  dims.push_back(classes);
  draw.output(to, dims);
}

}  // namespace tenon::conform
