// SPDX-License-Identifier: Apache-2.0
// norms.cpp: softmax, layer norm and batch norm with their neighbours, against oneDNN.
//
// The limit is traffic: a batch norm's operands are read for the sums, and again for the result, a row norm's once; what else
// there is moves once. Loops that do nothing else say how long that takes.
#include "onednn.hpp"
#include "world.hpp"

#include <cmath>
#include <cstring>

namespace bench {
namespace {

using dnnl::normalization_flags;
using onednn::Type;
using tenon::Op;
using Value = tenon::FragmentBuilder::Value;

const auto affine = normalization_flags::use_scale | normalization_flags::use_shift;
constexpr size_t line = 64;  // every binding's alignment

// How often tensors of `bytes` pass: read for sums, and read beside the result.
struct Passes {
  size_t bytes, read, operands;
};
Row against_onednn(World& world, const std::string& name, Program& ours, const Passes& passes,
                   const std::function<void()>& theirs) {
  Contest contest = contest_of(name, "oneDNN", ours, theirs);
  limit_by_passes(world, contest, passes.bytes, passes.read, passes.operands);
  return measured(world, contest);
}

// ---- softmax ----

constexpr int64_t softmax_rows = 24'576, softmax_length = 512;
const TensorSpec scores{tenon::f32, {softmax_rows, softmax_length}, {}, line};

void softmax_forward_row() {
  World world;
  tenon::FragmentBuilder f;
  f.output(f.node(Op::softmax, {f.input(scores)}, scores, {{"axis", int64_t{-1}}}));
  Program ours(world, must(f.build()));
  float* const theirs = world.floats(ours.count(1));
  Call call;
  world.on_worker([&] {
    const memory::desc x = onednn::dense(scores.dims);
    call = {onednn::softmax_forward(onednn::softmax_description(x, 1)),
            {{DNNL_ARG_SRC, bound(x, ours.at(0))}, {DNNL_ARG_DST, bound(x, theirs)}}};
  });
  const Row row = against_onednn(world, "softmax_forward", ours, {scores.bytes(), 0, 1}, [&] { call(); });
  check_agreement(ours.at(1), theirs, ours.count(1));
  print_with_rivals(row);
}

void softmax_backward_row() {
  World world;
  tenon::FragmentBuilder f;
  const Value dy = f.input(scores), y = f.input(scores);
  f.output(f.node(Op::softmax_grad, {dy, y}, scores, {{"axis", int64_t{-1}}}));
  Program ours(world, must(f.build()));
  float* const out = ours.at(1);  // as a softmax leaves it: rows that sum to 1
  for (size_t i = 0; i < ours.count(1); ++i) out[i] *= 1.0f / softmax_length;
  float* const theirs = world.floats(ours.count(2));
  Call call;
  world.on_worker([&] {
    const memory::desc x = onednn::dense(scores.dims);
    call = {onednn::softmax_backward(onednn::softmax_grad_description(x, 1)),
            {{DNNL_ARG_DIFF_DST, bound(x, ours.at(0))},
             {DNNL_ARG_DST, bound(x, ours.at(1))},
             {DNNL_ARG_DIFF_SRC, bound(x, theirs)}}};
  });
  const Row row = against_onednn(world, "softmax_backward", ours, {scores.bytes(), 0, 2}, [&] { call(); });
  check_agreement(ours.at(2), theirs, ours.count(2));
  print_with_rivals(row);
}

// ---- layer norm ----

constexpr int64_t layer_rows = 16'384, layer_length = 1024;
const TensorSpec tokens{tenon::f32, {layer_rows, layer_length}, {}, line};
const TensorSpec per_token{tenon::f32, {layer_rows}, {}, line},
    per_column{tenon::f32, {layer_length}, {}, line};

void layer_norm_forward_row() {
  World world;
  tenon::FragmentBuilder f;
  const std::vector<Value> in{f.input(tokens), f.input(per_column), f.input(per_column)};
  for (const Value out :
       f.node(Op::layer_norm, in, {tokens, per_token, per_token}, {{"axes", int64_t{1}}, {"epsilon", 1e-5}}))
    f.output(out);
  Program ours(world, must(f.build()));
  float* const theirs = world.floats(ours.count(3));
  float *const mean = world.floats(layer_rows), *const variance = world.floats(layer_rows);
  Call call;
  world.on_worker([&] {
    const memory::desc x = onednn::dense(tokens.dims);
    const memory::desc row = onednn::dense({layer_rows}), column = onednn::dense({layer_length});
    call = {dnnl::layer_normalization_forward(
                onednn::norm_description<dnnl::layer_normalization_forward>(x, affine)),
            {{DNNL_ARG_SRC, bound(x, ours.at(0))},
             {DNNL_ARG_DST, bound(x, theirs)},
             {DNNL_ARG_SCALE, bound(column, ours.at(1))},
             {DNNL_ARG_SHIFT, bound(column, ours.at(2))},
             {DNNL_ARG_MEAN, bound(row, mean)},
             {DNNL_ARG_VARIANCE, bound(row, variance)}}};
  });
  const Row row = against_onednn(world, "layer_norm_forward", ours, {tokens.bytes(), 0, 1}, [&] { call(); });
  check_agreement(ours.at(3), theirs, ours.count(3));
  print_with_rivals(row);
}

void layer_norm_backward_row() {
  World world;
  tenon::FragmentBuilder f;
  const std::vector<Value> in{f.input(tokens), f.input(tokens), f.input(per_column), f.input(per_token),
                              f.input(per_token)};
  for (const Value out :
       f.node(Op::layer_norm_grad, in, {tokens, per_column, per_column}, {{"axes", int64_t{1}}}))
    f.output(out);
  Program ours(world, must(f.build()));
  float* const variance = world.floats(layer_rows);
  for (int64_t i = 0; i < layer_rows; ++i) ours.at(4)[i] = 1 / std::sqrt(variance[i] + 1e-5f);
  float* const theirs = world.floats(ours.count(5));
  float *const dscale = world.floats(layer_length), *const dbias = world.floats(layer_length),
               *const bias = world.floats(layer_length);
  Call call;
  world.on_worker([&] {
    const memory::desc x = onednn::dense(tokens.dims);
    const memory::desc row = onednn::dense({layer_rows}), column = onednn::dense({layer_length});
    const auto forward = onednn::norm_description<dnnl::layer_normalization_forward>(x, affine);
    // 2.6 asks for SHIFT here, though no gradient depends on it.
    call = {dnnl::layer_normalization_backward(
                onednn::norm_grad_description<dnnl::layer_normalization_backward>(x, affine, forward)),
            {{DNNL_ARG_DIFF_DST, bound(x, ours.at(0))},
             {DNNL_ARG_SRC, bound(x, ours.at(1))},
             {DNNL_ARG_SCALE, bound(column, ours.at(2))},
             {DNNL_ARG_SHIFT, bound(column, bias)},
             {DNNL_ARG_MEAN, bound(row, ours.at(3))},
             {DNNL_ARG_VARIANCE, bound(row, variance)},
             {DNNL_ARG_DIFF_SRC, bound(x, theirs)},
             {DNNL_ARG_DIFF_SCALE, bound(column, dscale)},
             {DNNL_ARG_DIFF_SHIFT, bound(column, dbias)}}};
  });
  const Row row = against_onednn(world, "layer_norm_backward", ours, {tokens.bytes(), 0, 2}, [&] { call(); });
  check_agreement(ours.at(5), theirs, ours.count(5));
  check_agreement(ours.at(6), dscale, layer_length);
  print_with_rivals(row);
}

// ---- batch norm ----

constexpr int64_t channels = 256, height = 56;
const std::vector<int64_t> image_dims{16, channels, height, height};  // 51 MB of f32
const std::vector<int64_t> pixel_strides{height * height * channels, 1, height* channels, channels};
const TensorSpec per_channel{tenon::f32, {channels}, {}, line};

TensorSpec images(tenon::DType dtype) { return {dtype, image_dims, pixel_strides, line}; }

memory::desc described(tenon::DType dtype) {
  return memory::desc(image_dims, dtype == tenon::bf16 ? Type::bf16 : Type::f32, pixel_strides);
}

// x, scale, bias, mean, variance [, residual] → mean, inv_std, new mean, new variance, result.
tenon::Fragment forward_fragment(tenon::DType dtype, bool residual) {
  const TensorSpec image = images(dtype);
  tenon::FragmentBuilder f;
  std::vector<Value> in{f.input(image)};
  for (int i = 0; i < 4; ++i) in.push_back(f.input(per_channel));
  const auto out =
      f.node(Op::batch_norm_train, in, {image, per_channel, per_channel, per_channel, per_channel},
             {{"epsilon", 1e-5}, {"momentum", 0.9}});
  for (size_t i = 1; i < out.size(); ++i) f.output(out[i]);
  const Value sum = residual ? f.node(Op::add, {out[0], f.input(image)}, image) : out[0];
  f.output(f.node(Op::relu, {sum}, image));
  return must(f.build());
}

// oneDNN's batch norm in training, with or without its own relu.
struct TheirForward {
  dnnl::batch_normalization_forward::primitive_desc description;
  Call call;
  float *mean, *variance;

  TheirForward(World& world, tenon::DType dtype, bool relu, const void* x, const float* scale,
               const float* bias, void* y)
      : mean(world.floats(channels)), variance(world.floats(channels)) {
    const memory::desc image = described(dtype), channel = onednn::dense({channels});
    const auto flags = relu ? affine | normalization_flags::fuse_norm_relu : affine;
    world.on_worker([&] {
      description = onednn::norm_description<dnnl::batch_normalization_forward>(image, flags);
      call = {dnnl::batch_normalization_forward(description),
              {{DNNL_ARG_SRC, bound(image, x)},
               {DNNL_ARG_DST, bound(image, y)},
               {DNNL_ARG_SCALE, bound(channel, scale)},
               {DNNL_ARG_SHIFT, bound(channel, bias)},
               {DNNL_ARG_MEAN, bound(channel, mean)},
               {DNNL_ARG_VARIANCE, bound(channel, variance)}}};
    });
    if (!relu) return;
    const memory::desc mask = description.workspace_desc();
    call.arguments.emplace(DNNL_ARG_WORKSPACE, bound(mask, world.bytes(mask.get_size())));
  }
};

void bn_forward_row(const std::string& name, tenon::DType dtype, bool residual) {
  World world;
  Program ours(world, forward_fragment(dtype, residual));
  const size_t result = residual ? 10 : 9;
  const size_t bytes = images(dtype).bytes();
  void* const theirs = world.bytes(bytes);
  const TheirForward forward(world, dtype, !residual, ours.at<void>(0), ours.at(1), ours.at(2), theirs);
  Call add;
  if (residual) {
    world.on_worker([&] {
      const memory::desc image = described(dtype);
      const auto relu = onednn::followed_by(dnnl::algorithm::eltwise_relu);
      add = {dnnl::binary(onednn::sum_description(image, relu)),
             {{DNNL_ARG_SRC_0, bound(image, theirs)},
              {DNNL_ARG_SRC_1, bound(image, ours.at<void>(5))},
              {DNNL_ARG_DST, bound(image, theirs)}}};
    });
  }
  const Row row = against_onednn(world, name, ours, {bytes, 1, residual ? size_t{2} : size_t{1}}, [&] {
    forward.call();
    if (residual) add();
  });
  if (dtype == tenon::bf16)
    check_agreement(ours.at<uint16_t>(result), static_cast<uint16_t*>(theirs), ours.count(result));
  else
    check_agreement(ours.at(result), static_cast<float*>(theirs), ours.count(result));
  print_with_rivals(row);
}

// As an executor has it: what relu was given is made again of x (ADR 0043). oneDNN reads bits that its way forward wrote.
void relu_bn_backward_row() {
  World world;
  const TensorSpec image = images(tenon::f32);
  tenon::FragmentBuilder f;
  const Value dy = f.input(image), x = f.input(image), scale = f.input(per_channel),
              bias = f.input(per_channel), mean = f.input(per_channel), inverse = f.input(per_channel);
  const Value given = f.node(Op::batch_norm_apply, {x, scale, bias, mean, inverse}, image);
  const Value dz = f.node(Op::relu_grad, {dy, given}, image);
  const std::vector<Value> in{dz, x, scale, mean, inverse};
  for (const Value out : f.node(Op::batch_norm_grad, in, {image, per_channel, per_channel})) f.output(out);
  Program ours(world, must(f.build()));  // dy, x, scale, bias, mean, inv_std → dx, dscale, dbias

  float* const y = world.floats(ours.count(1));
  const TheirForward forward(world, tenon::f32, true, ours.at(1), ours.at(2), ours.at(3), y);
  world.on_worker([&] { forward.call(); });
  std::memcpy(ours.at(4), forward.mean, channels * sizeof(float));
  for (int64_t i = 0; i < channels; ++i) ours.at(5)[i] = 1 / std::sqrt(forward.variance[i] + 1e-5f);
  float* const theirs = world.floats(ours.count(6));
  float *const dscale = world.floats(channels), *const dbias = world.floats(channels);
  Call call;
  world.on_worker([&] {
    const memory::desc all = described(tenon::f32), channel = onednn::dense({channels});
    call = {
        dnnl::batch_normalization_backward(onednn::norm_grad_description<dnnl::batch_normalization_backward>(
            all, affine | normalization_flags::fuse_norm_relu, forward.description)),
        forward.call.arguments};
    call.arguments.erase(DNNL_ARG_DST);
    call.arguments.emplace(DNNL_ARG_DIFF_DST, bound(all, ours.at(0)));
    call.arguments.emplace(DNNL_ARG_DIFF_SRC, bound(all, theirs));
    call.arguments.emplace(DNNL_ARG_DIFF_SCALE, bound(channel, dscale));
    call.arguments.emplace(DNNL_ARG_DIFF_SHIFT, bound(channel, dbias));
  });
  const Row row = against_onednn(world, "relu_bn_backward/f32", ours, {image.bytes(), 2, 2}, [&] { call(); });
  check_agreement(ours.at(6), theirs, ours.count(6));
  print_with_rivals(row);
}

// ---- batch norm in one launch with what stands around it, and in a launch of its own ----

constexpr const char* apart = "batch norm alone";

// The same fragment of one launch and of two.
void check_same_bytes(const Program& one, size_t binding, const Program& two, size_t theirs, size_t bytes) {
  if (std::memcmp(one.at<void>(binding), two.at<void>(theirs), bytes) != 0)
    throw std::runtime_error("one launch and two do not give the same bits");
}

void forward_apart_row(const std::string& name, tenon::DType dtype) {
  World world;
  const TensorSpec image = images(dtype);
  Program ours(world, forward_fragment(dtype, true));  // x, four, residual → four, result
  tenon::FragmentBuilder f;
  std::vector<Value> in{f.input(image)};
  for (int i = 0; i < 4; ++i) in.push_back(f.input(per_channel));
  for (const Value out :
       f.node(Op::batch_norm_train, in, {image, per_channel, per_channel, per_channel, per_channel},
              {{"epsilon", 1e-5}, {"momentum", 0.9}}))
    f.output(out);
  Program alone(world, must(f.build()));  // x, four → y, four
  tenon::FragmentBuilder g;
  const Value sum = g.node(Op::add, {g.input(image), g.input(image)}, image);
  g.output(g.node(Op::relu, {sum}, image));
  Program rest(world, must(g.build()));
  for (size_t i = 0; i < 5; ++i) alone.share(i, ours, i);
  rest.share(0, alone, 5);
  rest.share(1, ours, 5);
  const Row row = measured(world, {.name = name,
                                   .peer = apart,
                                   .ours = [&] { ours.run(); },
                                   .theirs = [&] { alone.run(), rest.run(); },
                                   .bytes = ours.bytes(),
                                   .theirs_launches = true});
  check_same_bytes(ours, 10, rest, 2, image.bytes());
  print(row);
}

// `shared`: the activation's gradient goes on to a residual, too.
void backward_apart_row(const std::string& name, tenon::DType dtype, bool shared) {
  World world;
  const TensorSpec image = images(dtype);
  tenon::FragmentBuilder f, g, h;
  const Value dz = f.node(Op::relu_grad, {f.input(image), f.input(image)}, image);
  if (shared) f.output(dz);
  std::vector<Value> in{dz, f.input(image)}, own{h.input(image), h.input(image)};
  for (int i = 0; i < 3; ++i) in.push_back(f.input(per_channel)), own.push_back(h.input(per_channel));
  for (const Value out : f.node(Op::batch_norm_grad, in, {image, per_channel, per_channel})) f.output(out);
  g.output(g.node(Op::relu_grad, {g.input(image), g.input(image)}, image));
  for (const Value out : h.node(Op::batch_norm_grad, own, {image, per_channel, per_channel})) h.output(out);
  Program ours(world, must(f.build()));  // dy, y, x, scale, mean, inv_std → [dz,] dx, dscale, dbias
  Program first(world, must(g.build())), second(world, must(h.build()));
  first.share(0, ours, 0);
  first.share(1, ours, 1);
  second.share(0, first, 2);
  for (size_t i = 1; i < 5; ++i) second.share(i, ours, i + 1);
  const Row row = measured(world, {.name = name,
                                   .peer = apart,
                                   .ours = [&] { ours.run(); },
                                   .theirs = [&] { first.run(), second.run(); },
                                   .bytes = ours.bytes(),
                                   .theirs_launches = true});
  check_same_bytes(ours, shared ? 7 : 6, second, 5, image.bytes());
  print(row);
}

}  // namespace

void norm_rows() {
  attempt("softmax_forward", softmax_forward_row);
  attempt("softmax_backward", softmax_backward_row);
  attempt("layer_norm_forward", layer_norm_forward_row);
  attempt("layer_norm_backward", layer_norm_backward_row);
  attempt("bn_relu_forward/f32", [] { bn_forward_row("bn_relu_forward/f32", tenon::f32, false); });
  attempt("bn_relu_forward/bf16", [] { bn_forward_row("bn_relu_forward/bf16", tenon::bf16, false); });
  attempt("bn_add_relu_forward/f32", [] { bn_forward_row("bn_add_relu_forward/f32", tenon::f32, true); });
  attempt("relu_bn_backward/f32", relu_bn_backward_row);
  for (const tenon::DType dtype : {tenon::f32, tenon::bf16}) {
    const std::string in = "batch_norm/" + std::string(tenon::name(dtype));
    const auto row = [&](const std::string& name, const auto& run) { attempt(name, [&] { run(name); }); };
    row(in + "/add_relu_forward", [&](const std::string& name) { forward_apart_row(name, dtype); });
    row(in + "/relu_backward", [&](const std::string& name) { backward_apart_row(name, dtype, false); });
    row(in + "/add_relu_backward", [&](const std::string& name) { backward_apart_row(name, dtype, true); });
  }
}

}  // namespace bench
