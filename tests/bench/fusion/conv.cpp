// SPDX-License-Identifier: Apache-2.0
// conv.cpp: the convolutions of ResNet-50 and their gradients, batch 16, channels last, against oneDNN called directly.
//
// The same job for both: plain weights in or out, images as they lie. oneDNN's weights are brought into its layout by a
// reorder within the time, as a step of training has to. Ours are compiled with time for a search.
#include "onednn.hpp"
#include "world.hpp"

namespace bench {
namespace {

using Ints = std::vector<int64_t>;

constexpr int64_t batch = 16;

struct Shape {
  int64_t side, in, out, window, stride;
  int64_t pad() const { return window / 2; }
  int64_t result_side() const { return (side + 2 * pad() - window) / stride + 1; }
  Ints image() const { return {batch, in, side, side}; }
  Ints weights() const { return {out, in, window, window}; }
  Ints result() const { return {batch, out, result_side(), result_side()}; }
  double flops() const {
    return 2.0 * static_cast<double>(batch * result_side() * result_side() * out) *
           static_cast<double>(in * window * window);
  }
  // "56x56_64_256_1x1"
  std::string name() const {
    const auto square = [](int64_t n) { return std::to_string(n) + "x" + std::to_string(n); };
    return square(side) + "_" + std::to_string(in) + "_" + std::to_string(out) + "_" + square(window) +
           (stride > 1 ? "_s" + std::to_string(stride) : "");
  }
};
const std::vector<Shape> shapes = {{224, 3, 64, 7, 2},   {56, 64, 64, 3, 1},    {56, 64, 256, 1, 1},
                                   {56, 256, 64, 1, 1},  {56, 128, 128, 3, 2},  {28, 128, 128, 3, 1},
                                   {28, 128, 512, 1, 1}, {28, 512, 128, 1, 1},  {28, 512, 1024, 1, 2},
                                   {14, 256, 256, 3, 1}, {14, 256, 1024, 1, 1}, {14, 1024, 256, 1, 1},
                                   {7, 512, 512, 3, 1},  {7, 512, 2048, 1, 1},  {7, 2048, 512, 1, 1}};

enum class Pass { forward, data, weights };
struct PassName {
  Pass pass;
  const char* name;
};
constexpr PassName passes[] = {
    {Pass::forward, "forward"}, {Pass::data, "backward_data"}, {Pass::weights, "backward_weights"}};

Ints channels_last(const Ints& d) { return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}; }

tenon::Fragment fragment_of(const Shape& s, Pass pass, tenon::DType dtype) {
  const TensorSpec image{dtype, s.image(), channels_last(s.image()), 64}, weights{dtype, s.weights(), {}, 64},
      result{dtype, s.result(), channels_last(s.result()), 64};
  std::vector<tenon::Attribute> attributes{{"dilation", Ints{1, 1}},
                                           {"groups", int64_t{1}},
                                           {"pad", Ints{s.pad(), s.pad(), s.pad(), s.pad()}},
                                           {"stride", Ints{s.stride, s.stride}}};
  if (pass == Pass::data) attributes.push_back({"input_shape", s.image()});
  if (pass == Pass::weights) attributes.push_back({"weight_shape", s.weights()});
  const tenon::Op op = pass == Pass::forward ? tenon::Op::conv2d
                       : pass == Pass::data  ? tenon::Op::conv2d_grad_data
                                             : tenon::Op::conv2d_grad_weight;
  tenon::FragmentBuilder f;
  const auto a = f.input(pass == Pass::data ? result : image),
             b = f.input(pass == Pass::weights ? result : weights);
  f.output(f.node(op, {a, b},
                  pass == Pass::forward ? result
                  : pass == Pass::data  ? image
                                        : weights,
                  attributes));
  return must(f.build());
}

// oneDNN's calls for the bindings a, b and what is to be made. Made on the worker.
std::vector<Call> calls_of(const Shape& s, Pass pass, onednn::Type type, const void* a, const void* b,
                           void* made) {
  const memory::desc image(s.image(), type, channels_last(s.image())),
      weights = onednn::dense(s.weights(), type), result(s.result(), type, channels_last(s.result()));
  const onednn::ConvDescs asked{image, memory::desc(s.weights(), type, memory::format_tag::any), result};
  const onednn::Window window{{s.stride, s.stride}, {s.pad(), s.pad()}};
  std::vector<Call> out;
  // A memory in the layout asked for, and the call that brings the plain one there or back.
  const auto packed = [&](const memory::desc& desc, const void* plain, bool back) {
    if (desc == weights) return bound(weights, plain);
    const memory own(desc, onednn::engine()), other = bound(weights, plain);
    out.push_back(back ? Call{dnnl::reorder(own, other), {{DNNL_ARG_FROM, own}, {DNNL_ARG_TO, other}}}
                       : Call{dnnl::reorder(other, own), {{DNNL_ARG_FROM, other}, {DNNL_ARG_TO, own}}});
    return own;
  };
  if (pass == Pass::forward) {
    const auto d = onednn::conv_description(asked, window);
    const memory w = packed(d.weights_desc(), b, false);
    out.push_back(
        {dnnl::convolution_forward(d),
         {{DNNL_ARG_SRC, bound(image, a)}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, bound(result, made)}}});
  } else if (pass == Pass::data) {
    const auto d = onednn::conv_grad_description<dnnl::convolution_backward_data>(asked, window);
    const memory w = packed(d.weights_desc(), b, false);
    out.push_back({dnnl::convolution_backward_data(d),
                   {{DNNL_ARG_DIFF_DST, bound(result, a)},
                    {DNNL_ARG_WEIGHTS, w},
                    {DNNL_ARG_DIFF_SRC, bound(image, made)}}});
  } else {
    const auto d = onednn::conv_grad_description<dnnl::convolution_backward_weights>(asked, window);
    const memory w = packed(d.diff_weights_desc(), made, true);
    const Call main{
        dnnl::convolution_backward_weights(d),
        {{DNNL_ARG_SRC, bound(image, a)}, {DNNL_ARG_DIFF_DST, bound(result, b)}, {DNNL_ARG_DIFF_WEIGHTS, w}}};
    out.insert(out.begin(), main);
  }
  return out;
}

void conv_row(const std::string& name, const Shape& shape, Pass pass, tenon::DType dtype) {
  World world;
  Program ours(world, fragment_of(shape, pass, dtype), {.budget_ms = search_ms});
  const bool half = dtype == tenon::bf16;
  void* const theirs = world.bytes(ours.count(2) * (half ? 2 : 4));
  std::vector<Call> calls;
  world.on_worker([&] {
    calls = calls_of(shape, pass, half ? onednn::Type::bf16 : onednn::Type::f32, ours.at<void>(0),
                     ours.at<void>(1), theirs);
  });
  Contest contest = contest_of(name, "oneDNN", ours, [&] { in_turn(calls); });
  limit_by_products(contest, half ? tenon::bf16 : tenon::f32, shape.flops());
  const Row row = measured(world, contest);
  if (half)
    check_agreement(ours.at<uint16_t>(2), static_cast<uint16_t*>(theirs), ours.count(2));
  else
    check_agreement(ours.at(2), static_cast<float*>(theirs), ours.count(2), 1e-3);
  print_with_rivals(row);
}

}  // namespace

void conv_rows() {
  for (const auto& [dtype, type] : {std::pair{tenon::f32, "f32"}, std::pair{tenon::bf16, "bf16"}}) {
    for (const PassName& pass : passes) {
      for (const Shape& shape : shapes) {
        const std::string name = std::string("conv_") + type + "_" + pass.name + "/" + shape.name();
        attempt(name, [&, dtype = dtype] { conv_row(name, shape, pass.pass, dtype); });
      }
    }
  }
}

}  // namespace bench
