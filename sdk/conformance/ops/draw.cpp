// SPDX-License-Identifier: Apache-2.0
// draw.cpp: the frame around the shape rules: sizes, attributes nobody set, places in memory, aliases.
#include "conformance/ops/draw.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace tenon::conform {

namespace {

void draw_shapes(Draw& draw) {
  switch (draw.row.shape) {
    case ShapeRule::BROADCAST:
      return draw_broadcast(draw);
    case ShapeRule::REDUCE:
      return draw_reduce(draw);
    case ShapeRule::MATMUL:
      return draw_matmul(draw);
    case ShapeRule::CONV:
    case ShapeRule::CONV_DATA:
    case ShapeRule::CONV_WEIGHT:
      return draw_conv(draw);
    case ShapeRule::POOL:
    case ShapeRule::POOL_GRAD:
      return draw_pool(draw);
    case ShapeRule::GLOBAL:
      return draw_global(draw);
    case ShapeRule::LOSS:
      return draw_loss(draw);
    case ShapeRule::ATTENTION:
      return draw_attention(draw);
    case ShapeRule::EMBEDDING:
    case ShapeRule::EMBEDDING_GRAD:
      return draw_embedding(draw);
    case ShapeRule::ONE_HOT:
      return draw_one_hot(draw);
    case ShapeRule::FROM_ATTRIBUTE:
      return draw_from_attribute(draw);
    case ShapeRule::RESHAPE:
      return draw_reshape(draw);
    case ShapeRule::TRANSPOSE:
      return draw_transpose(draw);
    case ShapeRule::CONCAT:
      return draw_concat(draw);
    case ShapeRule::SLICE:
      return draw_slice(draw);
    case ShapeRule::PAD:
      return draw_pad(draw);
    case ShapeRule::BATCH_NORM:
    case ShapeRule::CHANNEL:
    case ShapeRule::ROW_NORM:
      return draw_roles(draw);
    case ShapeRule::UPDATE:
      return draw.row.outputs == TN_OP_MANY ? draw_scaling(draw) : draw_roles(draw);
    case ShapeRule::SAME:
      if (draw.row.family == Family::NORM) return draw_roles(draw);
      if (draw.row.family == Family::LOSS) return draw_loss(draw);
      return draw_same(draw);
    case ShapeRule::GATHER:
    case ShapeRule::SCATTER:
    case ShapeRule::NONE:
      return;  // collectives: not single
  }
}

// "[1,1]" or "7".
std::vector<int64_t> numbers(std::string_view text) {
  std::vector<int64_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto [next, failed] = std::from_chars(at, end, value);
    if (failed == std::errc()) out.push_back(value);
    at = failed == std::errc() ? next : at + 1;
  }
  return out;
}

// Whatever the shape rule left open: a flag for an int that is 0 by default, a small one for a larger one, a part of a
// float's default.
void draw_attribute(Draw& draw, const AttributeRow& open) {
  const std::string name(open.name);
  if (open.type == "int") {
    const std::vector<int64_t> fallback = numbers(open.fallback);
    const int64_t value = fallback.empty() ? 0 : fallback.front();
    if (value == 0) return draw.integer(name, static_cast<int64_t>(draw.choices.below(2)));
    return draw.integer(name, value > 2 && draw.choices.chance(2) ? 2 : value);
  }
  if (open.type == "float") {
    const double fallback = std::strtod(std::string(open.fallback).c_str(), nullptr);
    const double part = static_cast<double>(draw.choices.below(8)) / 16;  // 0 … 7/16
    return draw.real(name, fallback == 0 ? part : fallback * (1 - part));
  }
  if (open.type == "ints") return draw.integers(name, numbers(open.fallback));
  if (open.type == "dtype") return draw.dtype(name, draw.subject);
  draw.trial.attributes.push_back(
      {.name = name, .kind = TN_ATTRIBUTE_STRING, .text = std::string(open.fallback)});
}

constexpr uint64_t promised_alignment = 256;

// Gaps between rows, dims in another order, or one element repeated.
std::vector<int64_t> draw_strides(Choices& choices, const Operand& operand, bool written) {
  const size_t rank = operand.dims.size();
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  const uint64_t way = choices.below(4);
  if (way == 0) return {};
  if (way == 2) {
    for (size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[i - 1 - choices.below(i)]);
  }
  std::vector<int64_t> out(rank);
  int64_t step = way == 1 ? 1 + static_cast<int64_t>(choices.below(3)) : 1;
  for (size_t i = rank; i-- > 0;) {
    out[order[i]] = step;
    step = step * std::max<int64_t>(operand.dims[order[i]], 1) +
           (way == 1 ? static_cast<int64_t>(choices.below(4)) : 0);
  }
  if (way == 3 && !written && !operand.derived) {
    for (int64_t& stride : out) stride = choices.chance(2) ? 0 : stride;
  }
  return out;
}

// All operands as frameworks keep heads behind queries: of four dims the second and the third change places. Kernels that take
// few layouts take this one.
void exchange_middle(Draw& draw) {
  for (std::vector<Operand>* const all : {&draw.trial.inputs, &draw.trial.outputs}) {
    for (Operand& operand : *all) {
      operand.strides.clear();
      if (operand.absent || operand.dims.size() != 4) continue;
      const std::vector<int64_t>& dims = operand.dims;
      const auto step = [&](size_t i) { return std::max<int64_t>(dims[i], 1); };
      operand.strides = {step(1) * step(2) * step(3), step(3), step(1) * step(3), 1};
    }
  }
}

void draw_places(Draw& draw) {
  for (Operand& operand : draw.trial.inputs) draw_place(draw.choices, draw.form, operand, false);
  // Overwriting what another input reads would not be legal.
  for (size_t i = 1; i < draw.trial.inputs.size() && draw.form != Form::in_place; ++i) {
    const Operand& first = draw.trial.inputs.front();
    Operand& other = draw.trial.inputs[i];
    const bool alike = !other.absent && !other.derived && first.dtype == other.dtype &&
                       first.dims == other.dims && first.values == other.values && first.bound == other.bound;
    if (!alike || !draw.choices.chance(4)) continue;
    other = first;
    other.repeats_first = true;
  }
  for (Operand& operand : draw.trial.outputs) draw_place(draw.choices, draw.form, operand, true);
  if (draw.form == Form::strided && draw.choices.chance(4)) exchange_middle(draw);
}

// Each output that can takes the place of an input that no other took.
void draw_aliases(Draw& draw) {
  std::vector<bool> taken(draw.trial.inputs.size());
  uint32_t output = 0;
  for (Operand& to : draw.trial.outputs) {
    if (to.absent) continue;
    uint32_t input = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      const Operand& from = draw.trial.inputs[i];
      if (from.absent) continue;
      if (!taken[i] && from.dtype == to.dtype && from.dims == to.dims) {
        taken[i] = true;
        draw.trial.aliases.push_back({.input = input, .output = output});
        to.skew = from.skew;
        to.alignment = from.alignment;
        break;
      }
      ++input;
    }
    ++output;
  }
}

}  // namespace

int64_t Draw::dim(uint64_t most) {
  const uint64_t room = std::max<uint64_t>(std::min(budget, most), 1);
  const uint64_t reach = std::min(room, choices.pick<uint64_t>({3, 9, 40, room}));
  const auto out = static_cast<int64_t>(1 + choices.below(reach));
  budget = std::max<uint64_t>(budget / static_cast<uint64_t>(out), 1);
  return out;
}

bool Draw::take_given(int64_t low, int64_t high, std::vector<int64_t>& out) {
  if (given == nullptr) return false;
  const auto rank = static_cast<int64_t>(given->size());
  const bool fits = low <= rank && rank <= high;
  if (fits) out = *given;
  given = nullptr;
  return fits;
}

std::vector<int64_t> Draw::dims(size_t rank) {
  std::vector<int64_t> out(rank);
  if (take_given(static_cast<int64_t>(rank), static_cast<int64_t>(rank), out)) return out;
  for (int64_t& one : out) one = dim();
  // The largest comes where it was drawn first, so that each place has its turn.
  if (rank > 1)
    std::rotate(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(choices.below(rank)), out.end());
  return out;
}

std::vector<int64_t> Draw::some_dims(int64_t low, int64_t high) {
  std::vector<int64_t> out;
  if (take_given(low, high, out)) return out;
  return dims(static_cast<size_t>(choices.between(low, high)));
}

std::vector<int64_t> Draw::any_dims(int64_t low, int64_t high) {
  std::vector<int64_t> out;
  if (take_given(low, high, out)) return out;
  out = dims(static_cast<size_t>(choices.between(low, high)));
  if (choices.chance(9) && !out.empty()) out[choices.below(out.size())] = 0;
  return out;
}

Operand& Draw::input(uint32_t dtype, std::vector<int64_t> dims, Values values) {
  trial.inputs.push_back({.dtype = dtype, .dims = std::move(dims), .values = values});
  return trial.inputs.back();
}

Operand& Draw::input(uint32_t dtype, std::vector<int64_t> dims) {
  return input(dtype, std::move(dims), meaning_of(row).values);
}

Operand& Draw::output(uint32_t dtype, std::vector<int64_t> dims) {
  trial.outputs.push_back({.dtype = dtype, .dims = std::move(dims)});
  return trial.outputs.back();
}

void Draw::integer(std::string name, int64_t value) {
  trial.attributes.push_back({.name = std::move(name), .kind = TN_ATTRIBUTE_I64, .integer = value});
}
void Draw::real(std::string name, double value) {
  trial.attributes.push_back({.name = std::move(name), .kind = TN_ATTRIBUTE_F64, .real = value});
}
void Draw::integers(std::string name, std::vector<int64_t> values) {
  trial.attributes.push_back(
      {.name = std::move(name), .kind = TN_ATTRIBUTE_I64S, .integers = std::move(values)});
}
void Draw::dtype(std::string name, uint32_t value) {
  trial.attributes.push_back(
      {.name = std::move(name), .kind = TN_ATTRIBUTE_DTYPE, .integer = static_cast<int64_t>(value)});
}

bool Draw::takes(std::string_view attribute) const {
  const std::vector<AttributeRow> known = attributes_of(row);
  return std::any_of(known.begin(), known.end(), [&](const AttributeRow& a) { return a.name == attribute; });
}

uint32_t Draw::statistics() { return choices.below(2) == 0 ? uint32_t{TN_DTYPE_f32} : subject; }

void Draw::open_attributes() {
  for (const AttributeRow& known : attributes_of(row)) {
    if (trial.attribute(known.name) == nullptr) draw_attribute(*this, known);
  }
  std::sort(trial.attributes.begin(), trial.attributes.end(),
            [](const AttributeValue& a, const AttributeValue& b) { return a.name < b.name; });
}

void draw_place(Choices& choices, Form form, Operand& operand, bool written) {
  if (operand.absent) return;
  switch (choices.below(3)) {
    case 1:
      operand.skew = choices.below(8);
      break;
    case 2:
      operand.alignment = promised_alignment;
      break;
  }
  if (form == Form::strided) operand.strides = draw_strides(choices, operand, written);
}

namespace {

Trial finished(Draw& draw) {
  draw_shapes(draw);
  draw.open_attributes();
  draw_places(draw);
  if (draw.form == Form::in_place) draw_aliases(draw);
  draw.trial.specials = draw.choices.chance(3);
  draw.trial.value_seed = draw.choices.below(UINT64_MAX);
  return std::move(draw.trial);
}

}  // namespace

Trial draw_trial(const Row& row, uint32_t subject, Form form, uint64_t budget, Choices& choices) {
  Draw draw(row, subject, form, budget, choices);
  return finished(draw);
}

Trial draw_trial_around(const Row& row, uint32_t subject, Form form, uint64_t budget, Choices& choices,
                        size_t operand, const std::vector<int64_t>& dims) {
  Draw draw(row, subject, form, budget, choices);
  draw.given = &dims;
  draw.given_operand = operand;
  return finished(draw);
}

std::vector<AttributeValue> simplest_attributes(const Row& row, uint32_t subject) {
  Choices none(std::vector<uint64_t>{});
  Draw draw(row, subject, Form::dense, 1, none);
  if (row.family == Family::REDUCTION) draw.integers("axes", {0});
  draw.open_attributes();
  return std::move(draw.trial.attributes);
}

bool may_run_in_place(const Row& row) noexcept {
  const bool same_type = row.dtypes != DtypeRule::COMPARE && row.dtypes != DtypeRule::CAST;
  const bool same_shape =
      row.shape == ShapeRule::BROADCAST || row.shape == ShapeRule::SAME || row.shape == ShapeRule::UPDATE;
  return same_type && same_shape && row.family != Family::MOVEMENT;
}

}  // namespace tenon::conform
