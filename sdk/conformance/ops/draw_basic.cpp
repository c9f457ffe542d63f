// SPDX-License-Identifier: Apache-2.0
// draw_basic.cpp: shapes of elementwise ops, reductions, products and movement.
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace tenon::conform {

namespace {

uint32_t any_dtype(Draw& draw) {
  const auto known = all_dtypes();
  return known[draw.choices.below(known.size())];
}

// The type of the result of an elementwise row.
uint32_t result_dtype(Draw& draw) {
  if (draw.row.dtypes == DtypeRule::COMPARE) return TN_DTYPE_bool;
  if (draw.row.dtypes != DtypeRule::CAST) return draw.subject;
  const uint32_t to = any_dtype(draw);
  draw.dtype("dtype", to);
  return to;
}

// Those of the operand that is given; else `low` to 5, and now and then as many as the ABI has.
std::vector<int64_t> many_dims(Draw& draw, int64_t low) {
  if (draw.given != nullptr) return draw.any_dims(low, TN_MAX_RANK);
  const bool many = draw.choices.chance(3);
  return draw.any_dims(many ? 6 : low, many ? TN_MAX_RANK : 5);
}

// `dims` with some of them 1 and some leading ones left out.
std::vector<int64_t> narrowed(Draw& draw, const std::vector<int64_t>& dims) {
  std::vector<int64_t> out(dims.begin() + static_cast<std::ptrdiff_t>(draw.choices.below(dims.size() + 1)),
                           dims.end());
  for (int64_t& dim : out) dim = draw.choices.chance(3) ? 1 : dim;
  return out;
}

}  // namespace

void draw_broadcast(Draw& draw) {
  const bool asked = draw.given != nullptr;
  const std::vector<int64_t> dims = many_dims(draw, 0);
  const uint32_t count = draw.row.inputs_min;
  const size_t whole = asked                         ? draw.given_operand
                       : draw.form == Form::in_place ? 0
                                                     : draw.choices.below(count);
  for (size_t i = 0; i < count; ++i) {
    const bool condition = draw.row.dtypes == DtypeRule::SELECT && i == 0;
    // In place, whoever may be overwritten has the result's shape.
    const bool full = i == whole || draw.form == Form::in_place || draw.choices.below(2) == 0;
    draw.input(condition ? uint32_t{TN_DTYPE_bool} : draw.subject, full ? dims : narrowed(draw, dims));
  }
  draw.output(result_dtype(draw), dims);
}

void draw_reduce(Draw& draw) {
  const bool index = draw.row.dtypes == DtypeRule::INDEX;
  if (draw.choices.chance(3)) draw.budget *= 2;  // sums in several pieces
  std::vector<int64_t> dims = many_dims(draw, index ? 1 : 0);
  std::vector<int64_t> axes;
  if (index) {
    axes = {static_cast<int64_t>(draw.choices.below(dims.size()))};
    int64_t& along = dims[static_cast<size_t>(axes[0])];
    along = std::max<int64_t>(along, 1);  // nothing has no greatest
  } else {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (draw.choices.below(2) == 0) axes.push_back(static_cast<int64_t>(i));
    }
  }
  const bool keep = draw.choices.chance(2);
  std::vector<int64_t> left;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) != axes.end();
    if (!reduced || keep) left.push_back(reduced ? 1 : dims[i]);
  }
  draw.integers("axes", axes);
  draw.integer("keepdims", keep ? 1 : 0);
  draw.input(draw.subject, dims);
  draw.output(index ? uint32_t{TN_DTYPE_i64} : draw.subject, left);
}

void draw_matmul(Draw& draw) {
  draw.budget *= 8;  // it counts products
  const std::vector<int64_t>* const left = std::exchange(draw.given, nullptr);
  const bool asked = left != nullptr && left->size() >= 2 && draw.given_operand == 0;
  std::vector<int64_t> batch = asked ? std::vector<int64_t>(left->begin(), left->end() - 2)
                                     : draw.dims(draw.choices.pick<size_t>({0, 0, 1, 2, 3}));
  int64_t m = 1, n = 1, k = 1;
  // Now and then long one way, or two, as products are that a device cuts along their depth.
  if (!asked && batch.empty() && draw.choices.chance(8)) {
    int64_t* const one = draw.choices.pick<int64_t*>({&k, &m, &n});
    int64_t* const two = draw.choices.pick<int64_t*>({&k, &m, &n});
    const auto room = static_cast<uint64_t>(std::sqrt(static_cast<double>(draw.budget)));
    *one = *two = static_cast<int64_t>(1 + draw.choices.below(room));
  } else {
    for (int64_t* const one : {&m, &n, &k}) *one = draw.dim();
  }
  if (!asked && draw.choices.chance(12)) draw.choices.pick<int64_t*>({&k, &m, &n})[0] = 0;
  const bool turn_a = draw.choices.chance(2), turn_b = draw.choices.chance(2);
  if (asked) {
    m = turn_a ? left->back() : left->end()[-2];
    k = turn_a ? left->end()[-2] : left->back();
  }
  const auto matrix = [&](int64_t rows, int64_t columns, bool turned, bool whole) {
    std::vector<int64_t> dims = whole ? batch : narrowed(draw, batch);
    dims.insert(dims.end(), {turned ? columns : rows, turned ? rows : columns});
    draw.input(draw.subject, dims, Values::moderate);
  };
  const uint64_t whole = asked ? 1 : draw.choices.below(3);  // both, or one
  matrix(m, k, turn_a, whole != 2);
  matrix(k, n, turn_b, whole != 1);
  draw.integer("transpose_a", turn_a ? 1 : 0);
  draw.integer("transpose_b", turn_b ? 1 : 0);
  batch.insert(batch.end(), {m, n});
  draw.output(draw.subject, batch);
}

void draw_reshape(Draw& draw) {
  const std::vector<int64_t> dims = draw.any_dims(0, 5);
  std::vector<int64_t> shape;
  for (const int64_t dim : dims) {
    const bool merge = !shape.empty() && draw.choices.below(2) == 0;
    if (merge) {
      shape.back() *= dim;
    } else if (dim > 3 && dim % 2 == 0 && shape.size() < 5) {
      shape.insert(shape.end(), {dim / 2, 2});
    } else {
      shape.push_back(dim);
    }
  }
  if (draw.choices.chance(3)) shape.insert(shape.begin(), 1);
  draw.integers("shape", shape);
  draw.input(draw.subject, dims);
  draw.output(draw.subject, shape);
}

void draw_transpose(Draw& draw) {
  const std::vector<int64_t> dims = many_dims(draw, 0);
  std::vector<int64_t> order(dims.size()), turned;
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[i - 1 - draw.choices.below(i)]);
  for (const int64_t from : order) turned.push_back(dims[static_cast<size_t>(from)]);
  draw.integers("order", order);
  draw.input(draw.subject, dims);
  draw.output(draw.subject, turned);
}

void draw_concat(Draw& draw) {
  std::vector<int64_t> dims = draw.any_dims(1, 4);
  const size_t axis = draw.choices.below(dims.size());
  const int64_t count = draw.choices.between(1, 4);
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i) {
    dims[axis] = static_cast<int64_t>(draw.choices.below(7));
    total += dims[axis];
    draw.input(draw.subject, dims);
  }
  dims[axis] = total;
  draw.integer("axis", static_cast<int64_t>(axis));
  draw.output(draw.subject, dims);
}

void draw_slice(Draw& draw) {
  const std::vector<int64_t> dims = draw.any_dims(0, 4);
  std::vector<int64_t> begin, end, step, left;
  for (const int64_t dim : dims) {
    begin.push_back(draw.choices.between(0, dim));
    end.push_back(dim - draw.choices.between(0, dim - begin.back()));
    step.push_back(draw.choices.between(1, 3));
    left.push_back((end.back() - begin.back() + step.back() - 1) / step.back());
  }
  draw.integers("begin", begin);
  draw.integers("end", end);
  draw.integers("step", step);
  draw.input(draw.subject, dims);
  draw.output(draw.subject, left);
}

void draw_pad(Draw& draw) {
  const std::vector<int64_t> dims = draw.any_dims(0, 4);
  std::vector<int64_t> before, after, grown;
  for (const int64_t dim : dims) {
    before.push_back(draw.choices.between(0, 3));
    after.push_back(draw.choices.between(0, 3));
    grown.push_back(dim + before.back() + after.back());
  }
  draw.integers("before", before);
  draw.integers("after", after);
  draw.real("value", static_cast<double>(draw.choices.below(2)));
  draw.input(draw.subject, dims);
  draw.output(draw.subject, grown);
}

void draw_from_attribute(Draw& draw) {
  const std::vector<int64_t> dims = draw.any_dims(0, draw.row.family == Family::RANDOM ? 3 : 5);
  draw.integers("shape", dims);
  if (draw.row.family == Family::RANDOM) {
    draw.input(TN_DTYPE_u64, {}, Values::word);
    draw.input(TN_DTYPE_u64, {}, Values::word);
  } else if (draw.row.inputs_min == 1) {
    draw.input(draw.subject, narrowed(draw, dims));
  } else {
    const uint64_t values = draw.subject == TN_DTYPE_bool ? 2 : 5;
    draw.real("value", static_cast<double>(draw.choices.below(values)));
  }
  draw.output(draw.subject, dims);
}

void draw_same(Draw& draw) {
  if (draw.row.family == Family::RANDOM && draw.row.inputs_min == 1) {
    draw.integer("by", draw.choices.between(0, 1 << 20));
    draw.input(draw.subject, {}, Values::word);
    draw.output(draw.subject, {});
    return;
  }
  const bool along = draw.takes("axis");
  const std::vector<int64_t> dims = along ? draw.some_dims(1, 4) : draw.any_dims(0, 4);
  if (along) {
    const auto rank = static_cast<int64_t>(dims.size());
    draw.integer("axis", draw.choices.between(0, 2 * rank - 1) - rank);
  }
  draw.input(draw.subject, dims);
  if (draw.row.family == Family::SOFTMAX && draw.row.inputs_min == 2)
    draw.input(draw.subject, dims, Values::unit);
  if (draw.row.family == Family::RANDOM) {
    draw.input(TN_DTYPE_u64, {}, Values::word);
    draw.input(TN_DTYPE_u64, {}, Values::word);
    draw.real("rate", draw.choices.pick({0.0, 0.5, 0.1, 0.9}));
  }
  draw.output(draw.subject, dims);
}

}  // namespace tenon::conform
