// SPDX-License-Identifier: Apache-2.0
// attention.cpp: attention of one pass against three primitives of oneDNN: q × kᵀ with its scale, softmax, × v.
#include "onednn.hpp"
#include "world.hpp"

namespace bench {
namespace {

constexpr int64_t batch = 4, heads = 12, length = 512, depth = 64;
constexpr double scale = 0.125;  // 1 / √depth

tenon::Fragment attention_of(tenon::DType dtype) {
  const TensorSpec rows{dtype, {batch, heads, length, depth}, {}, 64};
  const TensorSpec sums{tenon::f32, {batch, heads, length}, {}, 64};
  tenon::FragmentBuilder f;
  const std::vector<tenon::FragmentBuilder::Value> in{f.input(rows), f.input(rows), f.input(rows)};
  for (const auto out :
       f.node(tenon::Op::attention, in, {rows, sums}, {{"causal", int64_t{0}}, {"scale", scale}}))
    f.output(out);
  return must(f.build());
}

// The three primitives; made on the worker.
std::vector<Call> three_calls(onednn::Type type, const void* q, const void* k, const void* v, void* weights,
                              void* y) {
  const memory::desc rows = onednn::dense({batch, heads, length, depth}, type);
  const memory::desc square = onednn::dense({batch, heads, length, length}, type);
  const memory::desc across({batch, heads, depth, length}, type,
                            {heads * length * depth, length * depth, 1, depth});
  const auto scaled = onednn::followed_by(dnnl::algorithm::eltwise_linear, static_cast<float>(scale));
  return {{dnnl::matmul(onednn::matmul_description(rows, across, square, scaled)),
           {{DNNL_ARG_SRC, bound(rows, q)},
            {DNNL_ARG_WEIGHTS, bound(across, k)},
            {DNNL_ARG_DST, bound(square, weights)}}},
          {onednn::softmax_forward(onednn::softmax_description(square, 3)),
           {{DNNL_ARG_SRC, bound(square, weights)}, {DNNL_ARG_DST, bound(square, weights)}}},
          {dnnl::matmul(onednn::matmul_description(square, rows, rows, {})),
           {{DNNL_ARG_SRC, bound(square, weights)},
            {DNNL_ARG_WEIGHTS, bound(rows, v)},
            {DNNL_ARG_DST, bound(rows, y)}}}};
}

void attention_row(const std::string& name, tenon::DType dtype) {
  World world;
  Program ours(world, attention_of(dtype));
  const size_t width = dtype == tenon::bf16 ? 2 : 4;
  void* const weights = world.bytes(batch * heads * length * length * width);
  void* const y = world.bytes(batch * heads * length * depth * width);
  std::vector<Call> calls;
  world.on_worker([&] {
    calls = three_calls(width == 2 ? onednn::Type::bf16 : onednn::Type::f32, ours.at<void>(0),
                        ours.at<void>(1), ours.at<void>(2), weights, y);
  });
  Contest contest = contest_of(name, "oneDNN", ours, [&] { in_turn(calls); });
  limit_by_products(contest, dtype, 4.0 * batch * heads * length * length * depth);
  const Row row = measured(world, contest);
  if (width == 2)
    check_agreement(ours.at<uint16_t>(3), static_cast<uint16_t*>(y), ours.count(3));
  else
    check_agreement(ours.at(3), static_cast<float*>(y), ours.count(3));
  print_with_rivals(row);
}

}  // namespace

void attention_rows() {
  attempt("attention/f32", [] { attention_row("attention/f32", tenon::f32); });
  attempt("attention/bf16", [] { attention_row("attention/bf16", tenon::bf16); });
}

}  // namespace bench
