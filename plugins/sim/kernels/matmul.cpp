// SPDX-License-Identifier: Apache-2.0
// matmul.cpp: every product of a row and a column, summed in double.
#include "node.hpp"

namespace tenon::sim {

namespace {

// The leading dims of a matmul's operand, and the step between its rows and columns after transposing.
struct Matrices {
  Operand all;
  bool turned;
  uint64_t rows, columns;

  Matrices(const Operand& x, bool transpose, const Dims& result) : turned(transpose) {
    Dims dims(result.begin(), result.end() - 2);
    dims.push_back(x.dim(x.dims().size() - 2));
    dims.push_back(x.dims().back());
    all = x.spread(dims);
    rows = static_cast<uint64_t>(dims[dims.size() - (turned ? 1 : 2)]);
    columns = static_cast<uint64_t>(dims[dims.size() - (turned ? 2 : 1)]);
  }
  double at(uint64_t batch, uint64_t row, uint64_t column) const {
    return all.real(batch * rows * columns + (turned ? column * rows + row : row * columns + column));
  }
};

void run(const Call& c) {
  const Matrices a(c.in[0], c.node.integer("transpose_a") != 0, c.out[0].dims());
  const Matrices b(c.in[1], c.node.integer("transpose_b") != 0, c.out[0].dims());
  for (uint64_t i = 0; i < c.out[0].count(); ++i) {
    const uint64_t column = i % b.columns, row = i / b.columns % a.rows, batch = i / b.columns / a.rows;
    Wide sum = 0;
    for (uint64_t k = 0; k < a.columns; ++k) sum += Wide(a.at(batch, row, k)) * b.at(batch, k, column);
    c.out[0].set(i, sum);
  }
}

}  // namespace

Routine product(uint32_t op) { return op == TN_OP_matmul ? run : nullptr; }

}  // namespace tenon::sim
