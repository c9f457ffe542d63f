// SPDX-License-Identifier: Apache-2.0
// movement.cpp: ops that compute nothing: elements go to other places.
#include "node.hpp"

namespace tenon::sim {

namespace {

// For each element of `part` in order, its index in a row-major `whole`, which starts at `begin` and goes by `step`.
template <class Visit>
void embed(const Dims& part, const Dims& whole, const Dims& begin, const Dims& step, Visit&& visit) {
  const Dims strides = Shape::row_major(TN_DTYPE_u8, whole).strides;
  const uint64_t count = count_of(part);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t rest = i, at = 0;
    for (size_t d = part.size(); d-- > 0;) {
      const auto inside = static_cast<int64_t>(rest % static_cast<uint64_t>(part[d]));
      rest /= static_cast<uint64_t>(part[d]);
      at += static_cast<uint64_t>((begin[d] + inside * step[d]) * strides[d]);
    }
    visit(i, at);
  }
}

Dims ones(size_t rank) { return Dims(rank, 1); }

void in_order(const Call& c) {  // reshape, convert_layout
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].take(i, c.in[0], i);
}

void broadcast_to(const Call& c) {
  const Operand x = c.in[0].spread(c.out[0].dims());
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].take(i, x, i);
}

void transpose(const Call& c) {
  const Dims strides = Shape::row_major(TN_DTYPE_u8, c.in[0].dims()).strides;
  const auto& order = c.node.integers("order");
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    uint64_t rest = i, from = 0;
    for (size_t d = order.size(); d-- > 0;) {
      const auto dim = static_cast<uint64_t>(c.out[0].dim(d));
      from += rest % dim * static_cast<uint64_t>(strides[static_cast<size_t>(order[d])]);
      rest /= dim;
    }
    c.out[0].take(i, c.in[0], from);
  }
}

void concat(const Call& c) {
  const size_t rank = c.out[0].dims().size();
  const int64_t given = c.node.integer("axis");
  const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(rank) : given);
  Dims begin(rank, 0);
  for (const Operand& part : c.in) {
    embed(part.dims(), c.out[0].dims(), begin, ones(rank),
          [&](uint64_t i, uint64_t at) { c.out[0].take(at, part, i); });
    begin[axis] += part.dim(axis);
  }
}

void slice(const Call& c) {
  embed(c.out[0].dims(), c.in[0].dims(), c.node.integers("begin"), c.node.integers("step"),
        [&](uint64_t i, uint64_t at) { c.out[0].take(i, c.in[0], at); });
}

void pad(const Call& c) {
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].set_number(i, c.node.real("value"));
  embed(c.in[0].dims(), c.out[0].dims(), c.node.integers("before"), ones(c.in[0].dims().size()),
        [&](uint64_t i, uint64_t at) { c.out[0].take(at, c.in[0], i); });
}

void constant(const Call& c) {
  for (uint64_t i = 0; i < c.out[0].count(); ++i) c.out[0].set_number(i, c.node.real("value"));
}

}  // namespace

Routine movement(uint32_t op) {
  switch (op) {
    case TN_OP_reshape:
    case TN_OP_convert_layout:
      return in_order;
    case TN_OP_broadcast_to:
      return broadcast_to;
    case TN_OP_transpose:
      return transpose;
    case TN_OP_concat:
      return concat;
    case TN_OP_slice:
      return slice;
    case TN_OP_pad:
      return pad;
    case TN_OP_constant:
      return constant;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
