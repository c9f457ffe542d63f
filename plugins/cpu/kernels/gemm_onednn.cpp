// SPDX-License-Identifier: Apache-2.0
// gemm_onednn.cpp: matrix products by oneDNN, with what is computed on them before they are written.
//
// Invariant: no exception of oneDNN leaves this file.
#include "gemm.hpp"

#if TENON_CPU_ONEDNN
#include "onednn_step.hpp"
#endif

#include <tenon/author/text.hpp>

namespace tenon::cpu {

#if TENON_CPU_ONEDNN

using dnnl::memory;

namespace {

// Dims [batch …, rows, columns]; a broadcast batch dim has extent 1.
memory::desc describe(const Gemm& gemm, const GemmOperand& operand, int64_t rows, int64_t columns) {
  memory::dims dims, strides;
  const int64_t unused = rows * columns;  // the stride of a dim of 1 is free, but must not be 0
  for (uint32_t i = 0; i < gemm.batch_rank; ++i) {
    dims.push_back(operand.batch[i] == 0 ? 1 : gemm.batch[i]);
    strides.push_back(operand.batch[i] == 0 ? unused : operand.batch[i]);
  }
  // A single row or column leaves its other stride free; it is set so that one of the two is 1.
  int64_t row = operand.row, column = operand.column;
  if (rows == 1) row = column == 1 || columns == 1 ? columns : 1;
  if (columns == 1) column = row == 1 && rows != 1 ? rows : 1;
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row, column});
  const auto type = operand.dtype == TN_DTYPE_bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  return memory::desc(dims, type, strides);
}

onednn::Finish finish_of(const Gemm& gemm, const memory::desc& c) {
  onednn::Finish out{.activation = gemm.activation, .variant = gemm.variant};
  if (gemm.bias != Place{}) {
    GemmOperand row{.place = gemm.bias, .dtype = gemm.c.dtype, .row = gemm.columns, .column = 1};
    out.bias = describe(gemm, row, 1, gemm.columns);
  }
  if (gemm.residual != Place{}) out.residual = c;
  return out;
}

}  // namespace

bool has_onednn() noexcept { return true; }

Result<OneDnnGemm> onednn_gemm(const Gemm& gemm, const Place& scratch, unsigned threads) {
  // oneDNN plans for as many threads as OpenMP offers to the thread that asks.
  const TeamSize size(threads);
  try {
    const memory::desc c = describe(gemm, gemm.c, gemm.rows, gemm.columns);
    const onednn::Finish finish = finish_of(gemm, c);
    const auto description =
        onednn::matmul_description(describe(gemm, gemm.a, gemm.rows, gemm.depth),
                                   describe(gemm, gemm.b, gemm.depth, gemm.columns), c, finish);
    std::vector<onednn::Operand> operands{{DNNL_ARG_SRC, description.src_desc(), gemm.a.place},
                                          {DNNL_ARG_WEIGHTS, description.weights_desc(), gemm.b.place},
                                          {DNNL_ARG_DST, description.dst_desc(), gemm.c.place},
                                          {DNNL_ARG_SCRATCHPAD, description.scratchpad_desc(), scratch}};
    if (gemm.bias != Place{}) operands.push_back({DNNL_ARG_BIAS, finish.bias, gemm.bias});
    if (gemm.residual != Place{}) operands.push_back({onednn::residual_argument, c, gemm.residual});
    return OneDnnGemm{.step = onednn::primitive_step(dnnl::matmul(description), "matmul",
                                                     author::text("onednn:", description.impl_info_str()),
                                                     std::move(operands)),
                      .scratch_bytes = description.scratchpad_desc().get_size()};
  } catch (const dnnl::error& error) {
    return onednn::refused("matmul", error);
  }
}

#else

bool has_onednn() noexcept { return false; }

Result<OneDnnGemm> onednn_gemm(const Gemm& /*gemm*/, const Place& /*scratch*/, unsigned /*threads*/) {
  return Status(TN_UNSUPPORTED, "this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF)");
}

#endif

}  // namespace tenon::cpu
