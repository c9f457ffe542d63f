// SPDX-License-Identifier: Apache-2.0
// attention_graph.cpp: one operation after the other. The library's engines are found by their order, so it is theirs.
#include "attention_graph.hpp"

#include <bit>
#include <limits>

namespace tenon::cuda {

namespace {

constexpr int64_t key_tile = 128;  // keys that the gradient's engines read at once, past the last

Four turned(const Four& four) noexcept { return {four[0], four[1], four[3], four[2]}; }

bool is_uneven(const Attention& a) noexcept { return a.q.dims[2] != a.k.dims[2]; }

// The gradient's engines are known to read keys past the last as zeros, whose shares overflow where log Σe is far below 0. A causal graph
// hides them, as they lie behind every query.
bool hides_past_end(const Attention& a) noexcept {
  return a.is_gradient() && !a.causal && a.k.dims[2] % key_tile != 0;
}

class AttentionBuilder {
 public:
  AttentionBuilder(const Cudnn& library, const Attention& attention, int64_t alignment)
      : a_(attention), type_(cudnn_type(attention.dtype)), graph_(library, alignment) {}

  Result<Descriptor> run() {
    TN_TRY(make_constants());
    TN_TRY(a_.is_gradient() ? backward() : forward());
    return graph_.finish();
  }

 private:
  Status make_constants() {
    scale_ = TN_TRY(graph_.constant(number_scale, CUDNN_DATA_FLOAT));
    infinity_ = TN_TRY(graph_.constant(number_minus_infinity, CUDNN_DATA_FLOAT));
    queries_ = TN_TRY(graph_.constant(number_queries, CUDNN_DATA_INT32));
    keys_ = TN_TRY(graph_.constant(number_keys, CUDNN_DATA_INT32));
    return {};
  }

  Status forward() {
    const GraphTensor q = TN_TRY(graph_.bound(a_.q, type_));
    const GraphTensor k = TN_TRY(turned_keys(a_.k));
    const GraphTensor v = TN_TRY(graph_.bound(a_.v, type_));
    const GraphTensor scores = TN_TRY(a_.causal ? hide_later(TN_TRY(make_scores(q, k))) : make_scores(q, k));
    const GraphTensor most = TN_TRY(folded(CUDNN_REDUCE_TENSOR_MAX, scores));
    const GraphTensor below = TN_TRY(step({.mode = CUDNN_POINTWISE_SUB, .x = scores, .b = &most}));
    const GraphTensor powers = TN_TRY(step({.mode = CUDNN_POINTWISE_EXP, .x = below}));
    const GraphTensor sum = TN_TRY(folded(CUDNN_REDUCE_TENSOR_ADD, powers));
    const GraphTensor logs = TN_TRY(graph_.between(a_.row_dims()));
    TN_TRY(graph_.pointwise({.mode = CUDNN_POINTWISE_LOG, .x = sum}, logs));
    TN_TRY(graph_.pointwise({.mode = CUDNN_POINTWISE_ADD, .x = most, .b = &logs}, TN_TRY(made_log())));
    const GraphTensor shares = TN_TRY(step({.mode = CUDNN_POINTWISE_DIV, .x = powers, .b = &sum}, type_));
    return graph_.matmul(shares, v, TN_TRY(made(a_.y, number_y, a_.query_dims())));
  }

  Status backward() {
    const GraphTensor dy = TN_TRY(graph_.bound(a_.dy, type_));
    const GraphTensor q = TN_TRY(graph_.bound(a_.q, type_));
    const GraphTensor k = TN_TRY(turned_keys(a_.k));
    const GraphTensor row_sum = TN_TRY(sum_rows(dy));
    const GraphTensor shares = TN_TRY(shares_again(q, k));
    TN_TRY(graph_.matmul(TN_TRY(turned_scores(shares)), dy, TN_TRY(made(a_.dv, number_dv, a_.key_dims()))));
    const GraphTensor slope = TN_TRY(graph_.between(a_.score_dims()));
    TN_TRY(graph_.matmul(dy, TN_TRY(turned_keys(a_.v)), slope));
    const GraphTensor apart = TN_TRY(step({.mode = CUDNN_POINTWISE_SUB, .x = slope, .b = &row_sum}));
    const GraphTensor shared = TN_TRY(step({.mode = CUDNN_POINTWISE_MUL, .x = apart, .b = &shares}));
    const GraphTensor scaled = TN_TRY(step({.mode = CUDNN_POINTWISE_MUL, .x = shared, .b = &scale_}, type_));
    TN_TRY(graph_.matmul(TN_TRY(turned_scores(scaled)), q, TN_TRY(made(a_.dk, number_dk, a_.key_dims()))));
    const GraphTensor rows = TN_TRY(graph_.between(a_.k.dims, a_.k.strides, type_));
    TN_TRY(graph_.reshape(k, rows));
    return graph_.matmul(scaled, rows, TN_TRY(made(a_.dq, number_dq, a_.query_dims())));
  }

  // Σ dy·y of each row, in memory: the library's gradient runs in two kernels.
  Result<GraphTensor> sum_rows(const GraphTensor& dy) {
    const GraphTensor y = TN_TRY(graph_.bound(a_.y, type_));
    const GraphTensor one = TN_TRY(graph_.constant(number_one, CUDNN_DATA_FLOAT));
    const GraphTensor products = TN_TRY(graph_.between(a_.query_dims()));
    const GraphTensor sums = TN_TRY(graph_.between(a_.row_dims()));
    GraphTensor out = TN_TRY(graph_.scratch(number_row_sum, a_.row_dims(), CUDNN_DATA_FLOAT));
    TN_TRY(graph_.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = dy, .b = &y}, products));
    TN_TRY(graph_.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums));
    TN_TRY(graph_.pointwise({.mode = CUDNN_POINTWISE_MUL, .x = sums, .b = &one}, out));
    return out;
  }

  Result<GraphTensor> shares_again(const GraphTensor& q, const GraphTensor& k) {
    const GraphTensor scores = TN_TRY(make_scores(q, k));
    const GraphTensor log = TN_TRY(graph_.bound(a_.log, CUDNN_DATA_FLOAT));
    GraphTensor below = TN_TRY(step({.mode = CUDNN_POINTWISE_SUB, .x = scores, .b = &log}));
    if (hides_past_end(a_)) below = TN_TRY(hide_past_end(below));
    if (a_.causal) below = TN_TRY(hide_later(below));
    return step({.mode = CUDNN_POINTWISE_EXP, .x = below});
  }

  Result<GraphTensor> make_scores(const GraphTensor& q, const GraphTensor& k) {
    const GraphTensor products = TN_TRY(graph_.between(a_.score_dims()));
    TN_TRY(graph_.matmul(q, k, products));
    return step({.mode = CUDNN_POINTWISE_MUL, .x = products, .b = &scale_});
  }

  // Keys behind a query, counted from the last of both.
  Result<GraphTensor> hide_later(const GraphTensor& scores) {
    GraphTensor row = TN_TRY(index(scores, 2));
    const GraphTensor column = TN_TRY(index(scores, 3));
    if (is_uneven(a_)) {
      row = TN_TRY(shift(CUDNN_POINTWISE_ADD, row, keys_));
      row = TN_TRY(shift(CUDNN_POINTWISE_SUB, row, queries_));
    }
    return choose(CUDNN_POINTWISE_CMP_GE, row, column, scores);
  }
  Result<GraphTensor> hide_past_end(const GraphTensor& scores) {
    const GraphTensor column = TN_TRY(index(scores, 3));
    return choose(CUDNN_POINTWISE_CMP_LT, column, keys_, scores);
  }

  Result<GraphTensor> index(const GraphTensor& scores, int64_t axis) {
    return step({.mode = CUDNN_POINTWISE_GEN_INDEX, .x = scores, .axis = axis}, CUDNN_DATA_INT32);
  }
  Result<GraphTensor> shift(cudnnPointwiseMode_t mode, const GraphTensor& row, const GraphTensor& by) {
    return step({.mode = mode, .x = row, .b = &by, .compute = CUDNN_DATA_INT32, .axis = 3}, CUDNN_DATA_INT32);
  }
  Result<GraphTensor> choose(cudnnPointwiseMode_t mode, const GraphTensor& a, const GraphTensor& b,
                             const GraphTensor& scores) {
    const GraphTensor seen =
        TN_TRY(step({.mode = mode, .x = a, .b = &b, .compute = CUDNN_DATA_BOOLEAN}, CUDNN_DATA_BOOLEAN));
    return step({.mode = CUDNN_POINTWISE_BINARY_SELECT, .x = scores, .b = &infinity_, .t = &seen});
  }

  Result<GraphTensor> step(const CudnnGraph::Pointwise& operation, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    GraphTensor out = TN_TRY(graph_.between(a_.score_dims(), type));
    TN_TRY(graph_.pointwise(operation, out));
    return out;
  }
  Result<GraphTensor> folded(cudnnReduceTensorOp_t how, const GraphTensor& scores) {
    GraphTensor out = TN_TRY(graph_.between(a_.row_dims()));
    TN_TRY(graph_.reduce(how, scores, out));
    return out;
  }

  // Keys or values as columns.
  Result<GraphTensor> turned_keys(Placed keys) {
    keys.dims = turned(keys.dims);
    keys.strides = turned(keys.strides);
    return graph_.bound(keys, type_);
  }
  Result<GraphTensor> turned_scores(const GraphTensor& scores) {
    const Four dims = a_.score_dims();
    GraphTensor out = TN_TRY(graph_.between(turned(dims), turned(dense(dims)), type_));
    TN_TRY(graph_.reshape(scores, out));
    return out;
  }

  Result<GraphTensor> made(const Placed& result, int64_t number, const Four& dims) {
    return result.is_there() ? graph_.bound(result, type_) : graph_.scratch(number, dims, type_);
  }
  Result<GraphTensor> made_log() {
    return a_.log.is_there() ? graph_.bound(a_.log, CUDNN_DATA_FLOAT) : graph_.between(a_.row_dims());
  }

  const Attention& a_;
  const cudnnDataType_t type_;
  CudnnGraph graph_;
  GraphTensor scale_{}, infinity_{}, queries_{}, keys_{};
};

PlanConstant constant(int64_t number, float value) {
  return {.number = number, .value = std::bit_cast<std::array<std::byte, 4>>(value)};
}
PlanConstant constant(int64_t number, int64_t value) {
  return {.number = number, .value = std::bit_cast<std::array<std::byte, 4>>(static_cast<int32_t>(value))};
}

}  // namespace

std::vector<PlanConstant> attention_constants(const Attention& a) {
  std::vector<PlanConstant> out{constant(number_scale, a.scale)};
  if (a.causal || hides_past_end(a))
    out.push_back(constant(number_minus_infinity, -std::numeric_limits<float>::infinity()));
  if (a.is_gradient()) out.push_back(constant(number_one, 1.0f));
  if (a.causal && is_uneven(a)) out.push_back(constant(number_queries, a.q.dims[2]));
  if ((a.causal && is_uneven(a)) || hides_past_end(a)) out.push_back(constant(number_keys, a.k.dims[2]));
  return out;
}

std::vector<PlanScratch> attention_scratch(const Attention& a) {
  const auto bytes = [](const Four& dims, uint32_t dtype) {
    return author::dtype_bytes(dtype, static_cast<uint64_t>(dims[0] * dims[1] * dims[2] * dims[3]));
  };
  std::vector<PlanScratch> out;
  const auto unless = [&](const Placed& result, int64_t number, const Four& dims) {
    if (!result.is_there()) out.push_back({.number = number, .bytes = bytes(dims, a.dtype)});
  };
  if (!a.is_gradient()) {
    unless(a.y, number_y, a.query_dims());
    return out;
  }
  out.push_back({.number = number_row_sum, .bytes = bytes(a.row_dims(), TN_DTYPE_f32)});
  unless(a.dq, number_dq, a.query_dims());
  unless(a.dk, number_dk, a.key_dims());
  unless(a.dv, number_dv, a.key_dims());
  return out;
}

Result<Descriptor> attention_graph(const Cudnn& library, const Attention& attention, int64_t alignment) {
  return AttentionBuilder(library, attention, alignment).run();
}

}  // namespace tenon::cuda
