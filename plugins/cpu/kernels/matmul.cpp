// SPDX-License-Identifier: Apache-2.0
// matmul.cpp: from a matmul node, and its epilogue, to a product that an engine takes: packed, cast, folded.
//
// f32 and bf16 are computed as they are, by oneDNN or by kernels of our own (gemm_ways.cpp); f16, and bf16 where the processor
// lacks AVX-512 or may not use it, or the depth is odd, are computed in f32; f64 runs in plain loops.
// Invariant: an operand that no engine reads as it lies is first copied to dense memory in the workspace.
#include "matmul.hpp"
#include "builder.hpp"
#include "epilogue.hpp"
#include "gemm.hpp"
#include "isa.hpp"
#include "tiles.hpp"

#include <algorithm>

namespace tenon::cpu {
namespace {

struct Matrix {
  TensorView tensor;
  bool turned;  // transposed by the node
};

// The operand's strides, aligned to an output of `rank` dims.
GemmOperand operand_of(const Matrix& matrix, const Place& place, uint32_t rank,
                       const std::array<int64_t, TN_MAX_RANK>& strides, uint32_t dtype) {
  const TensorView& tensor = matrix.tensor;
  GemmOperand out{.place = place,
                  .dtype = dtype,
                  .row = strides[tensor.rank() - 2],
                  .column = strides[tensor.rank() - 1]};
  if (matrix.turned) std::swap(out.row, out.column);
  const uint32_t missing = rank - tensor.rank();
  for (uint32_t i = 0; i + 2 < tensor.rank(); ++i) {
    if (tensor.dims()[i] != 1) out.batch[missing + i] = strides[i];
  }
  return out;
}

// What engines read without a copy: one unit stride, and lines that do not overlap. A single row or column with gaps has
// a unit stride on paper only, and oneDNN 3.7 reads it without its gaps.
bool is_readable(const GemmOperand& operand, int64_t rows, int64_t columns) {
  if (rows == 1) return operand.column == 1 || columns == 1;
  if (columns == 1) return operand.row == 1;
  return (operand.column == 1 && operand.row >= columns) || (operand.row == 1 && operand.column >= rows);
}

// What they write without one: rows of unit stride.
bool is_writable(const GemmOperand& operand, int64_t rows, int64_t columns) {
  if (columns == 1) return operand.row == 1 || rows == 1;
  return operand.column == 1 && (operand.row >= columns || rows == 1);
}

// A dim that repeats one element: no engine takes it, unless it is a broadcast that the other operand's extent carries.
bool is_expanded(TensorView tensor) {
  const auto strides = tensor.strides();
  for (uint32_t i = 0; i < tensor.rank(); ++i) {
    if (strides[i] == 0 && tensor.dims()[i] > 1) return true;
  }
  return false;
}

// Takes leading batch dims that both a and c step through as rows into the rows, when b is one matrix for all of them.
void fold_batch(Gemm& gemm) {
  while (gemm.batch_rank > 0) {
    const uint32_t i = gemm.batch_rank - 1;
    const bool shared = gemm.b.batch[i] == 0;
    const bool a_follows = gemm.a.batch[i] == gemm.rows * gemm.a.row,
               c_follows = gemm.c.batch[i] == gemm.rows * gemm.c.row;
    if (gemm.batch[i] != 1 && !(shared && a_follows && c_follows)) return;
    gemm.rows *= gemm.batch[i];
    gemm.a.batch[i] = gemm.b.batch[i] = gemm.c.batch[i] = 0;
    --gemm.batch_rank;
  }
}

class Lowering {
 public:
  Lowering(Builder& builder, uint32_t at, unsigned threads)
      : Lowering(builder, builder.fragment().nodes()[at], epilogue_of(builder.fragment(), at), threads) {}
  Lowering(Builder& builder, const tn_node& node, const Epilogue& epilogue, unsigned threads)
      : builder_(builder),
        node_(node),
        epilogue_(epilogue),
        threads_(threads),
        a_{builder.fragment().tensor(node.inputs[0]),
           author::attribute_i64(node, "transpose_a").value_or(0) != 0},
        b_{builder.fragment().tensor(node.inputs[1]),
           author::attribute_i64(node, "transpose_b").value_or(0) != 0},
        c_{builder.fragment().tensor(epilogue.result), false} {}

  Status build() {
    const uint32_t dtype = a_.tensor.dtype();
    const Place result = builder_.output_place(epilogue_.result);
    if (c_.tensor.elements() == 0) return {};
    if (depth() == 0) return build_zeros(result);
    if (dtype == TN_DTYPE_f64) {
      builder_.add(plain_gemm(gemm_in(dtype, result)));
      return {};
    }
    // Products of pairs multiply what lies behind an odd depth by zero, and an infinity there makes NaN of it.
    const bool in_pairs = dtype == TN_DTYPE_bf16 && !(isa() >= Isa::avx512 && driver::has_bf16_tiles());
    const uint32_t first =
        in_pairs && depth() % 2 != 0 ? static_cast<uint32_t>(TN_DTYPE_f32) : matmul_dtype(dtype);
    Status built = build_product(first, result);
    if (built.code() == TN_UNSUPPORTED && first != TN_DTYPE_f32) {
      pending_.clear();
      built = build_product(TN_DTYPE_f32, result);
    }
    if (!built.ok()) return built;
    for (auto& step : pending_) builder_.add(std::move(step));
    return {};
  }

 private:
  int64_t rows() const { return c_.tensor.dims()[c_.tensor.rank() - 2]; }
  int64_t columns() const { return c_.tensor.dims()[c_.tensor.rank() - 1]; }
  int64_t depth() const { return a_.tensor.dims()[a_.tensor.rank() - (a_.turned ? 2 : 1)]; }

  // A sum of nothing is 0.
  Status build_zeros(const Place& result) {
    TileBuilder tiles(c_.tensor.elements());
    tiles.store(tiles.constant(class_of(c_.tensor.dtype()), 0), result, View(c_.tensor), false);
    builder_.add(TN_TRY(tiles.finish()));
    return {};
  }

  Gemm gemm_in(uint32_t dtype, const Place& result) const {
    Gemm gemm{.rows = rows(), .columns = columns(), .depth = depth()};
    const uint32_t rank = c_.tensor.rank();
    gemm.batch_rank = rank - 2;
    std::copy_n(c_.tensor.dims().begin(), rank - 2, gemm.batch.begin());
    gemm.a = operand_of(a_, builder_.place(node_.inputs[0]), rank, a_.tensor.strides(), dtype);
    gemm.b = operand_of(b_, builder_.place(node_.inputs[1]), rank, b_.tensor.strides(), dtype);
    gemm.c = operand_of(c_, result, rank, c_.tensor.strides(), dtype);
    return gemm;
  }

  // Copies an operand to dense memory of `dtype` when it is not readable, or not of that type.
  Status make_readable(GemmOperand& operand, const Matrix& matrix, uint32_t dtype, int64_t row_count,
                       int64_t column_count) {
    const TensorView& tensor = matrix.tensor;
    const bool fits = is_readable(operand, row_count, column_count) && !is_expanded(tensor);
    if (tensor.dtype() == dtype && fits) return {};
    const Place copy = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
    pending_.push_back(
        TN_TRY(copy_step(operand.place, View(tensor), copy, View::dense(dtype, tensor.elements()))));
    operand = operand_of(matrix, copy, c_.tensor.rank(), dense_strides(tensor.dims()), dtype);
    return {};
  }

  Status build_product(uint32_t dtype, const Place& result) {
    Gemm gemm = gemm_in(dtype, result);
    TN_TRY(make_readable(gemm.a, a_, dtype, gemm.rows, gemm.depth));
    TN_TRY(make_readable(gemm.b, b_, dtype, gemm.depth, gemm.columns));
    const TensorView& c = c_.tensor;
    const bool fits =
        epilogue_.residual == TN_ABSENT ? is_writable(gemm.c, gemm.rows, gemm.columns) : c.is_dense();
    const bool direct = c.dtype() == dtype && fits;
    if (!direct) {
      const Place dense = builder_.scratch(author::dtype_bytes(dtype, c.elements()));
      gemm.c = operand_of(c_, dense, c.rank(), dense_strides(c.dims()), dtype);
    }
    TN_TRY(finish(gemm, dtype));
    fold_batch(gemm);
    TN_TRY(build_gemm(builder_, gemm, threads_, pending_));
    if (direct) return {};
    pending_.push_back(TN_TRY(copy_step(gemm.c.place, View::dense(dtype, c.elements()), result, View(c))));
    return {};
  }

  // The operand of the epilogue as dense elements of `dtype`.
  Result<Place> make_dense(uint32_t operand, uint32_t dtype) {
    const TensorView tensor = builder_.fragment().tensor(operand);
    if (tensor.dtype() == dtype && tensor.is_dense()) return builder_.place(operand);
    const Place copy = builder_.scratch(author::dtype_bytes(dtype, tensor.elements()));
    pending_.push_back(TN_TRY(
        copy_step(builder_.place(operand), View(tensor), copy, View::dense(dtype, tensor.elements()))));
    return copy;
  }

  Status finish(Gemm& gemm, uint32_t dtype) {
    if (epilogue_.bias != TN_ABSENT) gemm.bias = TN_TRY(make_dense(epilogue_.bias, dtype));
    if (epilogue_.residual != TN_ABSENT) gemm.residual = TN_TRY(make_dense(epilogue_.residual, dtype));
    gemm.activation = epilogue_.activation;
    gemm.variant = epilogue_.variant;
    return {};
  }

  Builder& builder_;
  const tn_node& node_;
  Epilogue epilogue_;
  unsigned threads_;
  Matrix a_, b_, c_;
  Steps pending_;  // added once the engine has said yes
};

}  // namespace

uint32_t matmul_dtype(uint32_t dtype) noexcept {
  if (dtype == TN_DTYPE_f64) return dtype;
  const bool bf16_is_native = isa() >= Isa::avx512 && driver::has_avx512();
  return dtype == TN_DTYPE_bf16 && bf16_is_native ? dtype : static_cast<uint32_t>(TN_DTYPE_f32);
}

Status build_matmul(Builder& builder, uint32_t first, uint32_t /*end*/, unsigned threads) {
  return Lowering(builder, first, threads).build();
}

}  // namespace tenon::cpu
