// SPDX-License-Identifier: Apache-2.0
// gemm_onednn.cpp: matrix products by oneDNN, with what is computed on them before they are written.
//
// Invariant: no exception of oneDNN leaves this file.
#include "gemm.hpp"

#include "isa.hpp"

#if TENON_CPU_ONEDNN
#include "onednn_step.hpp"
#endif

#include <tenon/author/text.hpp>

namespace tenon::cpu {

#if TENON_CPU_ONEDNN

using dnnl::memory;

namespace {

memory::data_type type_of(const GemmOperand& operand) noexcept {
  return operand.dtype == TN_DTYPE_bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// Dims [batch …, rows, columns]; a broadcast batch dim has extent 1. A `result` of one column has rows of one: as a column of
// something wider oneDNN has plain loops for it, and behind them a sigmoid that makes 0 of a NaN.
memory::desc describe(const Gemm& gemm, const GemmOperand& operand, int64_t rows, int64_t columns,
                      bool result = false) {
  memory::dims dims, strides;
  const int64_t unused = rows * columns;  // the stride of a dim of 1 is free, but must not be 0
  for (uint32_t i = 0; i < gemm.batch_rank; ++i) {
    dims.push_back(operand.batch[i] == 0 ? 1 : gemm.batch[i]);
    strides.push_back(operand.batch[i] == 0 ? unused : operand.batch[i]);
  }
  // A single row or column leaves its other stride free; it is set so that one of the two is 1.
  int64_t row = operand.row, column = operand.column;
  if (rows == 1) row = column == 1 || columns == 1 ? columns : 1;
  if (columns == 1) column = row == 1 && rows != 1 && !result ? rows : 1;
  dims.insert(dims.end(), {rows, columns});
  strides.insert(strides.end(), {row, column});
  return memory::desc(dims, type_of(operand), strides);
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

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return author::text("oneDNN ", version.major, ".", version.minor, ".", version.patch);
}

bool cap_onednn() noexcept {
#if defined(__x86_64__)
  if (isa_cap.load(std::memory_order_relaxed) == Isa::avx512) return true;  // no cap, also of what came after
  return dnnl_set_max_cpu_isa(runs_avx2() ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41) == dnnl_success;
#else
  return true;
#endif
}

Status onednn_gemm(Builder& builder, const Gemm& gemm, bool packs, unsigned threads, Steps& steps) {
  // oneDNN plans for as many threads as OpenMP offers to the thread that asks.
  const TeamSize size(threads);
  try {
    const memory::desc a = describe(gemm, gemm.a, gemm.rows, gemm.depth),
                       b = describe(gemm, gemm.b, gemm.depth, gemm.columns),
                       c = describe(gemm, gemm.c, gemm.rows, gemm.columns, true);
    const onednn::Finish finish = finish_of(gemm, c);
    const auto made =
        onednn::matmul_description(a, packs ? onednn::any_like(b, type_of(gemm.b)) : b, c, finish);
    std::vector<onednn::Operand> operands{
        {DNNL_ARG_SRC, a, gemm.a.place},
        onednn::brought({DNNL_ARG_WEIGHTS, b, gemm.b.place}, made.weights_desc(), builder, steps),
        {DNNL_ARG_DST, c, gemm.c.place}};
    if (gemm.bias != Place{}) operands.push_back({DNNL_ARG_BIAS, finish.bias, gemm.bias});
    if (gemm.residual != Place{}) operands.push_back({onednn::residual_argument, c, gemm.residual});
    const memory::desc room = made.scratchpad_desc();
    operands.push_back({DNNL_ARG_SCRATCHPAD, room, builder.scratch(room.get_size())});
    steps.push_back(onednn::primitive_step(
        dnnl::matmul(made), "matmul", author::text("onednn:", made.impl_info_str()), std::move(operands)));
    return {};
  } catch (const dnnl::error& error) {
    return onednn::refused("matmul", error);
  }
}

#else

bool has_onednn() noexcept { return false; }

std::string onednn_version() { return "no oneDNN"; }

bool cap_onednn() noexcept { return true; }

Status onednn_gemm(Builder& /*builder*/, const Gemm& /*gemm*/, bool /*packs*/, unsigned /*threads*/,
                   Steps& /*steps*/) {
  return Status(TN_UNSUPPORTED, "this build of the CPU plugin has no oneDNN (TENON_CPU_ONEDNN=OFF)");
}

#endif

}  // namespace tenon::cpu
