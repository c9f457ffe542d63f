// SPDX-License-Identifier: Apache-2.0
// draw_roles.cpp: shapes of rows whose operands are "per the op's meaning": normalisations and optimizers. Their meaning
// names each operand by a role, inputs -> outputs:
//
//   full     the subject's type and the whole shape       channel  dim 1 of an image, in the type of statistics
//   param    the last `axes` dims, likewise               row      the other dims, likewise
//   state    the whole shape, in f32 beside halves         master   the same, and there or absent on both sides
//   rate, flag, count   rank-0 f32: a number above 0, 0 or 1, a whole number from 1 on
//
// After a role: `+` holds numbers above 0, `*` is computed from the other inputs, `?` may be absent, `32` is f32.
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <sstream>

namespace tenon::conform {

namespace {

// What the roles of one trial stand for.
struct Shapes {
  std::vector<int64_t> full, param, row;
  uint32_t statistics, state;
  bool master, optional;
};

Shapes draw_role_shapes(Draw& draw) {
  Shapes out{};
  const bool asked = draw.given != nullptr;
  if (draw.row.shape == ShapeRule::ROW_NORM) {
    out.full = draw.some_dims(1, 4);
    const auto axes = draw.choices.between(1, static_cast<int64_t>(out.full.size()));
    draw.integer("axes", axes);
    out.row.assign(out.full.begin(), out.full.end() - axes);
    out.param.assign(out.full.end() - axes, out.full.end());
  } else if (draw.row.family == Family::NORM) {
    out.full = draw.dims(4);
    // At times one value a channel: its variance is 0, and no factor makes it unbiased.
    const bool alone = draw.choices.chance(4);
    if (!asked && alone) out.full = {1, out.full[1], 1, 1};
    if (!asked && !alone) out.full[0] = std::max<int64_t>(out.full[0], 2);
    out.param = {out.full[1]};
  } else {
    out.full = draw.any_dims(0, 3);
  }
  out.statistics = draw.statistics();
  out.state = is_half(draw.subject) ? uint32_t{TN_DTYPE_f32} : draw.subject;
  out.master = draw.choices.chance(2);
  out.optional = draw.choices.chance(2);
  return out;
}

Operand of_role(Draw& draw, const Shapes& shapes, std::string_view role) {
  const std::string_view name = role.substr(0, role.find_first_of("+*?3"));
  const auto marked = [&](char mark) { return role.find(mark) != std::string_view::npos; };
  Operand out{.dtype = draw.subject, .dims = shapes.full, .values = Values::tame};
  if (name == "channel" || name == "param" || name == "row") {
    out.dtype = marked('3') ? uint32_t{TN_DTYPE_f32} : shapes.statistics;
    out.dims = name == "row" ? shapes.row : shapes.param;
  } else if (name == "state" || name == "master") {
    out.dtype = shapes.state;
    out.absent = name == "master" && !shapes.master;
  } else if (name != "full") {
    out.dtype = TN_DTYPE_f32;
    out.dims = {};
    out.values = name == "rate"    ? Values::positive
                 : name == "scale" ? Values::scale
                 : name == "flag"  ? Values::index
                                   : Values::count;
    out.bound = name == "flag" ? 2 : 100;
    out.absent = marked('?') && !shapes.optional;
  }
  if (marked('+')) out.values = Values::positive;
  out.derived = marked('*');
  return out;
}

}  // namespace

void draw_roles(Draw& draw) {
  const Shapes shapes = draw_role_shapes(draw);
  std::istringstream roles(meaning_of(draw.row).operands);
  bool written = false;
  for (std::string role; roles >> role;) {
    if (role == "->") {
      written = true;
      continue;
    }
    (written ? draw.trial.outputs : draw.trial.inputs).push_back(of_role(draw, shapes, role));
  }
}

// scale, g… → found_inf, g/scale…
void draw_scaling(Draw& draw) {
  draw.input(TN_DTYPE_f32, {}, Values::positive);
  draw.output(TN_DTYPE_f32, {});
  const int64_t count = draw.choices.between(1, 3);
  for (int64_t i = 0; i < count; ++i) {
    const std::vector<int64_t> dims = draw.any_dims(0, 3);
    draw.input(draw.subject, dims, Values::moderate);
    draw.output(draw.subject, dims);
  }
}

}  // namespace tenon::conform
