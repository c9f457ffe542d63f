// SPDX-License-Identifier: Apache-2.0
// depthwise_test.cpp: relu with a depthwise convolution, forward and backward, as one step.
//
// Invariant: operands are small whole numbers, so sums are exact in every type and order, and bits are compared.
#include "nodes.hpp"
#include "onednn.hpp"

using namespace cpu_test;

namespace {

struct Form {
  Dims image;
  int64_t taps, stride, dilation;
  std::vector<int64_t> pad;
};
const std::vector<Form> forms = {
    {{2, 5, 9, 7}, 3, 1, 1, {1, 1, 1, 1}},  {{1, 20, 12, 8}, 3, 2, 1, {1, 1, 1, 1}},
    {{2, 33, 6, 6}, 5, 1, 1, {2, 2, 2, 2}}, {{1, 3, 11, 10}, 3, 1, 2, {2, 1, 0, 3}},
    {{1, 1, 4, 4}, 1, 2, 1, {0, 0, 0, 0}},
};

int64_t windows(const Form& f, size_t d) {
  return (f.image[2 + d] + f.pad[d] + f.pad[2 + d] - f.dilation * (f.taps - 1) - 1) / f.stride + 1;
}
Dims made(const Form& f) { return {f.image[0], f.image[1], windows(f, 0), windows(f, 1)}; }
Dims strides(const Dims& d, bool last) {
  return last ? Dims{d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]} : Dims{};
}

size_t draw(Nodes& n, Random& random, uint32_t dtype, const Dims& dims, const Dims& steps) {
  const size_t index = n.input(random, dtype, dims, steps);
  for_each(dims, [&](const Dims& at) {
    n.values[index].set(at, static_cast<Number>(static_cast<int>(random() % 5) - 2));
  });
  return index;
}

NodeOf conv(uint32_t op, const Form& f, std::vector<size_t> in, size_t out, int64_t groups) {
  NodeOf node{op, std::move(in), {out}, {{"groups", groups}}};
  node.lists = {{"dilation", {f.dilation, f.dilation}}};
  if (op == TN_OP_conv2d_grad_data) node.lists.push_back({"input_shape", f.image});
  node.lists.push_back({"pad", f.pad});
  node.lists.push_back({"stride", {f.stride, f.stride}});
  return node;
}

Nodes forward(const Form& f, uint32_t dtype, bool last, bool kept, Random& random) {
  Nodes n;
  const Dims steps = strides(f.image, last);
  const size_t x = draw(n, random, dtype, f.image, steps),
               w = draw(n, random, dtype, {f.image[1], 1, f.taps, f.taps}, {}),
               y = n.value(dtype, f.image, kept ? steps : Dims{}),
               z = n.value(dtype, made(f), strides(made(f), last));
  n.nodes.push_back({TN_OP_relu, {x}, {y}});
  n.nodes.push_back(conv(TN_OP_conv2d, f, {y, w}, z, f.image[1]));
  n.wanted = {z};
  if (kept) n.wanted.push_back(y);
  return n;
}

Nodes backward(const Form& f, uint32_t dtype, bool last, Random& random) {
  Nodes n;
  const Dims steps = strides(f.image, last);
  const size_t dz = draw(n, random, dtype, made(f), strides(made(f), last)),
               w = draw(n, random, dtype, {f.image[1], 1, f.taps, f.taps}, {}),
               y = draw(n, random, dtype, f.image, steps), dy = n.value(dtype, f.image),
               dx = n.value(dtype, f.image, steps);
  n.nodes.push_back(conv(TN_OP_conv2d_grad_data, f, {dz, w}, dy, f.image[1]));
  n.nodes.push_back({TN_OP_relu_grad, {dy, y}, {dx}});
  n.wanted = {dx};
  return n;
}

tn_support asked(Bench& bench, const Nodes& n) {
  FragmentBuilder f("asked");
  n.describe(f);
  return supports(bench.device, f.fragment());
}

void check(Bench& bench, const Nodes& n) {
  const tn_support said = asked(bench, n);
  CAPTURE(std::string(said.reason));
  if (said.verdict == TN_SUPPORT_NO && !has_onednn(bench.device)) TENON_SKIP("onednn", no_onednn);
  const bool one_step = said.verdict == TN_SUPPORT_NATIVE || said.verdict == TN_SUPPORT_CONVERTED;
  CHECK(one_step);
  FragmentBuilder f("pair");
  n.describe(f);
  CHECK(std::string(info(compile(bench.device, f.fragment())).engine).ends_with("depthwise"));
  const std::vector<Tensor> fused = n.run_fused(bench), apart = n.run_apart(bench);
  for (const size_t i : n.wanted) {
    size_t wrong = 0;
    for_each(fused[i].dims, [&](const Dims& at) { wrong += !same(fused[i].at(at), apart[i].at(at)); });
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("relu_depthwise_conv: forward, with and without relu's own output, in both orders of images") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f64, TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
    for (const Form& f : forms) {
      for (const bool last : {false, true}) {
        for (const bool kept : {false, true}) {
          CAPTURE(label(TN_OP_conv2d, dtype, f.image));
          CAPTURE(last);
          check(bench, forward(f, dtype, last, kept, random));
        }
      }
    }
  }
}

TEST_CASE("relu_depthwise_conv_backward: the image's gradient goes through relu's on its way out") {
  Bench bench;
  Random random(tenon::test::seed());
  for (const uint32_t dtype : {TN_DTYPE_f64, TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16}) {
    for (const Form& f : forms) {
      for (const bool last : {false, true}) {
        CAPTURE(label(TN_OP_conv2d_grad_data, dtype, f.image));
        CAPTURE(last);
        check(bench, backward(f, dtype, last, random));
      }
    }
  }
}

TEST_CASE("relu_depthwise_conv: a NaN goes through relu into every window that sees it") {
  Bench bench;
  Random random(1);
  Nodes n = forward(forms[0], TN_DTYPE_f64, false, true, random);
  n.values[0].set({1, 2, 4, 3}, std::numeric_limits<Number>::quiet_NaN());
  const std::vector<Tensor> out = n.run_fused(bench);
  for (const size_t i : n.wanted) CHECK(std::isnan(out[i].at({1, 2, 4, 3})));
}

TEST_CASE("relu_depthwise_conv: any other convolution is refused with its filters and groups") {
  Bench bench;
  Random random(1);
  Nodes n;
  const Form f{{1, 4, 6, 6}, 3, 1, 1, {1, 1, 1, 1}};
  const size_t x = draw(n, random, TN_DTYPE_f64, f.image, {}),
               w = draw(n, random, TN_DTYPE_f64, {6, 2, 3, 3}, {}), y = n.value(TN_DTYPE_f64, f.image),
               z = n.value(TN_DTYPE_f64, {1, 6, 6, 6});
  n.nodes.push_back({TN_OP_relu, {x}, {y}});
  n.nodes.push_back(conv(TN_OP_conv2d, f, {y, w}, z, 2));
  n.wanted = {z};
  const tn_support said = asked(bench, n);
  CHECK(said.verdict == TN_SUPPORT_EMULATED);
  CHECK(std::string(said.reason).find("it is not depthwise: 6 filters of 2 channels in 2 groups") !=
        std::string::npos);
}
