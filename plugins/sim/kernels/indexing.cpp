// SPDX-License-Identifier: Apache-2.0
// indexing.cpp: rows of a table by number. An index outside the table gives a zero row, and its gradient goes nowhere.
#include "node.hpp"

namespace tenon::sim {

namespace {

void embedding(const Call& c) {
  const auto rows = static_cast<uint64_t>(c.in[1].dim(0)), width = static_cast<uint64_t>(c.in[1].dim(1));
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    const uint64_t row = c.in[0].bits(i / width);  // a negative one is beyond every table
    if (row < rows)
      c.out[0].take(i, c.in[1], row * width + i % width);
    else
      c.out[0].set(i, 0);
  }
}

void embedding_grad(const Call& c) {
  const auto rows = static_cast<uint64_t>(c.out[0].dim(0)), width = static_cast<uint64_t>(c.out[0].dim(1));
  std::vector<Wide> sums(c.out[0].count());
  for (uint64_t i = 0; i < c.in[1].count(); ++i) {
    const uint64_t row = c.in[0].bits(i / width);
    if (row < rows) sums[row * width + i % width] += c.in[1].real(i);
  }
  for (uint64_t i = 0; i < sums.size(); ++i) c.out[0].set(i, sums[i]);
}

void one_hot(const Call& c) {
  const auto classes = static_cast<uint64_t>(c.node.integer("classes"));
  for (uint64_t i = 0; i < c.out[0].count(); ++i)
    c.out[0].set_number(i, c.in[0].bits(i / classes) == i % classes ? 1 : 0);
}

}  // namespace

Routine indexing(uint32_t op) {
  switch (op) {
    case TN_OP_embedding:
      return embedding;
    case TN_OP_embedding_grad:
      return embedding_grad;
    case TN_OP_one_hot:
      return one_hot;
    default:
      return nullptr;
  }
}

}  // namespace tenon::sim
