// SPDX-License-Identifier: Apache-2.0
// gemm_ways.cpp: the ways in which a product is computed, in the order that suits its shape.
//
// Invariant: every way computes the same product of the same operands, within the tolerance of matmul.
#include "gemm.hpp"
#include "search.hpp"

#include <tenon/author/text.hpp>

#include <algorithm>

namespace tenon::cpu {

using author::text;

namespace {

enum class GemmWay { onednn, onednn_packed, tiles, strips };

const char* name_of(GemmWay way) noexcept {
  constexpr const char* names[] = {"onednn", "onednn:packed", "amx", "strips"};
  return names[static_cast<size_t>(way)];
}

Status build(Builder& builder, const Gemm& gemm, GemmWay way, unsigned threads, Steps& steps) {
  if (way == GemmWay::tiles)
    steps.push_back(amx_gemm(builder, gemm, threads));
  else if (way == GemmWay::strips)
    strip_gemm(builder, gemm, threads, steps);
  else
    return onednn_gemm(builder, gemm, way == GemmWay::onednn_packed, threads, steps);
  return {};
}

bool is_constant(const GemmOperand& operand) noexcept { return operand.place.kind == Place::Kind::constant; }

// How often each packed number is multiplied: packing moves as many bytes as reading both operands, and pays when each
// serves a few hundred products. Between 512 (256 a number), where oneDNN is faster, and 1024 (512), where it is not.
bool suits_tiles(const Gemm& gemm) noexcept {
  constexpr double enough = 384;
  constexpr int64_t least = 64;  // of rows and columns, so that squares are full
  if (std::min({gemm.rows, gemm.columns, gemm.depth}) < least) return false;
  const double a = is_constant(gemm.a) ? 0 : 1 / static_cast<double>(gemm.columns),
               b = is_constant(gemm.b) ? 0 : 1 / static_cast<double>(gemm.rows);
  return enough * (a + b) <= 1;
}

// The first is what the table says.
std::vector<GemmWay> ways_of(const Gemm& gemm) {
  std::vector<GemmWay> out{GemmWay::onednn, GemmWay::onednn_packed};
  // Measured of bf16 alone: 1.2 to 1.5 times as fast where b need not be packed again.
  if (is_constant(gemm.b) && gemm.b.dtype == TN_DTYPE_bf16) std::swap(out[0], out[1]);
  if (has_amx_gemm(gemm)) out.insert(suits_tiles(gemm) ? out.begin() : out.end(), GemmWay::tiles);
  if (has_strip_gemm(gemm)) out.insert(suits_strips(gemm) ? out.begin() : out.end(), GemmWay::strips);
  return out;
}

std::string shape_of(const GemmOperand& operand, uint32_t batch_rank) {
  std::string out = text(is_constant(operand) ? "constant " : "", operand.row, ",", operand.column);
  for (uint32_t i = 0; i < batch_rank; ++i) out += text(",", operand.batch[i]);
  return out;
}

std::string key_of(const Gemm& gemm) {
  std::string out =
      text("matmul ", author::dtype_name(gemm.c.dtype), " ", gemm.rows, "x", gemm.depth, "x", gemm.columns);
  for (uint32_t i = 0; i < gemm.batch_rank; ++i) out += text(i == 0 ? " of " : "x", gemm.batch[i]);
  for (const GemmOperand* operand : {&gemm.a, &gemm.b, &gemm.c})
    out += text(" [", shape_of(*operand, gemm.batch_rank), "]");
  if (gemm.bias != Place{}) out += " bias";
  if (gemm.residual != Place{}) out += " residual";
  if (gemm.activation != TN_OP_identity)
    out += text(" ", author::op_name(gemm.activation), gemm.variant ? ":tanh" : "");
  return out;
}

// The product on operands of a trial's own; constants stay what they are.
struct Trial {
  Gemm gemm;
  std::vector<uint64_t> bytes;

  explicit Trial(const Gemm& given) : gemm(given) {
    bind(gemm.a, given.rows, given.depth);
    bind(gemm.b, given.depth, given.columns);
    const uint64_t result = bind(gemm.c, given.rows, given.columns);
    const uint64_t element = author::dtype_bytes(given.c.dtype, 1);
    if (given.bias != Place{}) gemm.bias = bound(static_cast<uint64_t>(given.columns) * element);
    if (given.residual != Place{}) gemm.residual = bound(result);
  }

 private:
  Place bound(uint64_t size) {
    bytes.push_back(size);
    return Place::at_binding(static_cast<uint32_t>(bytes.size() - 1));
  }
  uint64_t bind(GemmOperand& operand, int64_t rows, int64_t columns) {
    int64_t last = (rows - 1) * operand.row + (columns - 1) * operand.column;
    for (uint32_t i = 0; i < gemm.batch_rank; ++i) last += (gemm.batch[i] - 1) * operand.batch[i];
    const uint64_t size = author::dtype_bytes(operand.dtype, static_cast<uint64_t>(last) + 1);
    if (!is_constant(operand)) operand.place = bound(size);
    return size;
  }
};

}  // namespace

// Beside oneDNN's ways with and without packing measured 1.0 to 1.2 times as fast, 1.1 to 1.3 times with 64 or 128 columns (Xeon of
// the fifth generation). Products of few rows, columns or steps, and deep ones of few elements, are a search's to decide: packing is
// most of their time.
bool suits_strips(const Gemm& gemm) noexcept {
  constexpr int64_t least_rows = 512, least_columns = 64, least_depth = 128;
  constexpr int64_t products = int64_t{1} << 28, deep = 8;
  return gemm.rows >= least_rows && gemm.columns >= least_columns && gemm.depth >= least_depth &&
         gemm.rows * gemm.columns * gemm.depth >= products &&
         gemm.depth <= deep * std::min(gemm.rows, gemm.columns);
}

Status build_gemm(Builder& builder, const Gemm& gemm, unsigned threads, Steps& steps) {
  const std::vector<GemmWay> ways = ways_of(gemm);
  const Trial trial(gemm);
  Problem problem{.key = key_of(gemm), .binding_bytes = trial.bytes, .ways = {}};
  for (const GemmWay way : ways) {
    problem.ways.push_back({name_of(way), [&trial, way, threads](Builder& into, Steps& own) {
                              return build(into, trial.gemm, way, threads, own);
                            }});
  }
  return build_best(builder, problem, steps,
                    [&](size_t way, Steps& own) { return build(builder, gemm, ways[way], threads, own); });
}

}  // namespace tenon::cpu
