// SPDX-License-Identifier: Apache-2.0
// softmax.cpp: softmax and its gradient, and the loss made of it: rows of numbers and their log Σe^x.
#include "node.hpp"

#include <cmath>
#include <limits>

namespace tenon::sim {

namespace {

// The rows along attribute `axis`: element k of row r is at first(r) + k · step.
struct Rows {
  uint64_t rows, length, step;

  explicit Rows(const Call& c) {
    const Dims& dims = c.in[0].dims();
    const int64_t given = c.node.integer("axis");
    const auto axis = static_cast<size_t>(given < 0 ? given + static_cast<int64_t>(dims.size()) : given);
    length = static_cast<uint64_t>(dims[axis]);
    step = 1;
    for (size_t i = axis + 1; i < dims.size(); ++i) step *= static_cast<uint64_t>(dims[i]);
    rows = length == 0 ? 0 : c.in[0].count() / length;
  }
  uint64_t first(uint64_t row) const { return row / step * step * length + row % step; }
};

// log Σe^x of n numbers, without overflow; −∞ where all are.
template <class At>
Wide log_sum(uint64_t n, At&& at) {
  double largest = -std::numeric_limits<double>::infinity();
  Wide sum = 0;
  for (uint64_t k = 0; k < n; ++k) largest = std::isnan(at(k)) ? at(k) : std::fmax(largest, at(k));
  if (std::isinf(largest)) return largest;
  for (uint64_t k = 0; k < n; ++k) sum += std::exp(static_cast<Wide>(at(k)) - largest);
  return largest + std::log(sum);
}

void run_softmax(const Call& c) {
  const Rows rows(c);
  const bool log = c.node.op == TN_OP_log_softmax;
  for (uint64_t r = 0; r < rows.rows; ++r) {
    const uint64_t first = rows.first(r);
    const Wide total = log_sum(rows.length, [&](uint64_t k) { return c.in[0].real(first + k * rows.step); });
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = first + k * rows.step;
      const Wide share = c.in[0].real(i) - total;
      c.out[0].set(i, log ? share : std::exp(share));
    }
  }
}

void run_softmax_grad(const Call& c) {
  const Rows rows(c);
  for (uint64_t r = 0; r < rows.rows; ++r) {
    Wide inner = 0;
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = rows.first(r) + k * rows.step;
      inner += static_cast<Wide>(c.in[0].real(i)) * c.in[1].real(i);
    }
    for (uint64_t k = 0; k < rows.length; ++k) {
      const uint64_t i = rows.first(r) + k * rows.step;
      c.out[0].set(i, c.in[1].real(i) * (c.in[0].real(i) - inner));
    }
  }
}

// A label that names no class loses nothing, like one that is ignored.
bool counts(const Call& c, int64_t label) {
  return label != c.node.integer("ignore_index") && label >= 0 && label < c.in[0].dim(1);
}

void cross_entropy(const Call& c) {
  const auto classes = static_cast<uint64_t>(c.in[0].dim(1));
  for (uint64_t row = 0; row < c.in[1].count(); ++row) {
    const Wide total = log_sum(classes, [&](uint64_t k) { return c.in[0].real(row * classes + k); });
    const auto label = static_cast<int64_t>(c.in[1].bits(row));
    if (c.gives(0)) {
      c.out[0].set(row,
                   counts(c, label) ? total - c.in[0].real(row * classes + static_cast<uint64_t>(label)) : 0);
    }
    if (c.gives(1)) c.out[1].set(row, total);
  }
}

void cross_entropy_grad(const Call& c) {
  const auto classes = static_cast<uint64_t>(c.in[0].dim(1));
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    const uint64_t row = i / classes;
    const auto label = static_cast<int64_t>(c.in[1].bits(row));
    const Wide share = std::exp(static_cast<Wide>(c.in[0].real(i)) - c.in[2].real(row));
    const double hit = static_cast<uint64_t>(label) == i % classes ? 1 : 0;
    c.out[0].set(i, counts(c, label) ? c.in[3].real(row) * (share - hit) : 0);
  }
}

}  // namespace

Routine softmax(uint32_t op) {
  switch (op) {
    case TN_OP_softmax:
    case TN_OP_log_softmax:
      return run_softmax;
    case TN_OP_softmax_grad:
      return run_softmax_grad;
    case TN_OP_cross_entropy:
      return cross_entropy;
    case TN_OP_cross_entropy_grad:
      return cross_entropy_grad;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
