// SPDX-License-Identifier: Apache-2.0
// channels_test.cpp: what batch norms, pools and sums by index compute at the edges that random numbers seldom reach.
#include "world.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace cuda_test;

namespace {

using Dims = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr float no_number = std::numeric_limits<float>::quiet_NaN(),
                infinite = std::numeric_limits<float>::infinity();

void slide(FragmentBuilder::Node& node, const Dims& kernel, const Dims& stride, const Dims& pad) {
  node.integers("kernel", kernel).integers("stride", stride).integers("pad", pad);
}

// Equal, where NaN equals NaN.
bool same(const Floats& a, const Floats& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

// batch_norm_train of x [N, 1, 16, 16] with momentum 0, whose running variance is that of the batch.
Floats batch_variance(tn_device* device, const Floats& x) {
  FragmentBuilder f;
  const auto images = static_cast<int64_t>(x.size()) / 256;
  std::vector<uint32_t> inputs{f.input(TN_DTYPE_f32, {images, 1, 16, 16})};
  for (int i = 0; i < 4; ++i) inputs.push_back(f.input(TN_DTYPE_f32, {1}));
  f.node(TN_OP_batch_norm_train, inputs,
         {f.tensor(TN_DTYPE_f32, {images, 1, 16, 16}), f.tensor(TN_DTYPE_f32, {1}),
          f.tensor(TN_DTYPE_f32, {1}), f.tensor(TN_DTYPE_f32, {1}), f.output(TN_DTYPE_f32, {1})})
      .real("epsilon", 1e-5)
      .real("momentum", 0);
  return run<float>(device, f.fragment(), {x, {1}, {0}, {0}, {1}}, 1);
}

double variance_of(const Floats& x) {
  const auto count = static_cast<double>(x.size());
  double mean = 0, squares = 0;
  for (const float one : x) mean += one / count;
  for (const float one : x) squares += (one - mean) * (one - mean);
  return squares / (count - 1);
}

// Of a batch norm over bf16, an addition and a relu: one fragment, or one each.
using Halves = std::vector<uint16_t>;
struct Fused {
  Dims dims{3, 5, 4, 7};
  Halves x, scale, bias, beside;

  void norm(FragmentBuilder& f, uint32_t y) const {
    std::vector<uint32_t> inputs{f.input(TN_DTYPE_bf16, dims)};
    for (int i = 0; i < 4; ++i) inputs.push_back(f.input(TN_DTYPE_bf16, {5}));
    const auto unused = [&] { return f.tensor(TN_DTYPE_bf16, {5}); };
    f.node(TN_OP_batch_norm_train, inputs, {y, unused(), unused(), unused(), unused()})
        .real("epsilon", 1e-5)
        .real("momentum", 0.9);
  }
  Halves together(tn_device* device) const {
    FragmentBuilder f;
    const uint32_t y = f.tensor(TN_DTYPE_bf16, dims), sum = f.tensor(TN_DTYPE_bf16, dims);
    norm(f, y);
    f.node(TN_OP_add, {y, f.input(TN_DTYPE_bf16, dims)}, {sum});
    f.node(TN_OP_relu, {sum}, {f.output(TN_DTYPE_bf16, dims)});
    return run<uint16_t>(device, f.fragment(), {x, scale, bias, bias, scale, beside}, x.size());
  }
  Halves apart(tn_device* device) const {
    FragmentBuilder first, second, third;
    norm(first, first.output(TN_DTYPE_bf16, dims));
    const Halves y = run<uint16_t>(device, first.fragment(), {x, scale, bias, bias, scale}, x.size());
    second.node(TN_OP_add, {second.input(TN_DTYPE_bf16, dims), second.input(TN_DTYPE_bf16, dims)},
                {second.output(TN_DTYPE_bf16, dims)});
    const Halves sum = run<uint16_t>(device, second.fragment(), {y, beside}, x.size());
    third.node(TN_OP_relu, {third.input(TN_DTYPE_bf16, dims)}, {third.output(TN_DTYPE_bf16, dims)});
    return run<uint16_t>(device, third.fragment(), {sum}, x.size());
  }
};

// Which elements relu's gradient lets through: of the y that a batch norm and a relu stored, and of what is made again of x on the
// way to the batch norm's gradient. Each channel has values around its mean, of which y is about 0: in f16 some round to it. With
// `odd` values a NaN and both infinities stand among them, where the statistics are those without.
using Bytes = std::vector<uint8_t>;
struct Mask {
  uint32_t dtype;
  Dims strides;
  float scale;
  bool odd = false;
  Dims dims{3, 5, 4, 7};

  size_t element() const { return dtype == TN_DTYPE_f64 ? 8 : dtype == TN_DTYPE_f32 ? 4 : 2; }
  size_t bytes() const { return 420 * element(); }
  size_t channel_bytes() const { return 5 * (dtype == TN_DTYPE_f64 ? sizeof(double) : sizeof(float)); }
  uint32_t channel_type() const { return dtype == TN_DTYPE_f64 ? TN_DTYPE_f64 : TN_DTYPE_f32; }
  uint32_t image(FragmentBuilder& f) const { return f.input(dtype, dims, strides); }
  uint32_t given(FragmentBuilder& f) const { return f.output(dtype, dims, strides); }
  uint32_t parameter(FragmentBuilder& f) const { return f.input(channel_type(), {5}); }
  uint32_t made(FragmentBuilder& f) const { return f.output(channel_type(), {5}); }
  // Numbers next to 1, or 1 itself.
  Bytes images(uint32_t steps) const {
    std::mt19937 random(11);
    Bytes out(bytes());
    const uint64_t one = dtype == TN_DTYPE_f64   ? 0x3FF0000000000000
                         : dtype == TN_DTYPE_f32 ? 0x3F800000
                         : dtype == TN_DTYPE_f16 ? 0x3C00
                                                 : 0x3F80;
    for (size_t i = 0; i < 420; ++i) put(out, i, one + random() % steps);
    return out;
  }
  void put(Bytes& image, size_t i, uint64_t bits) const {
    std::memcpy(image.data() + i * element(), &bits, element());
  }
  // The image with a NaN, and each infinity, in two channels.
  Bytes with_odd(Bytes image) const {
    const uint64_t infinity = dtype == TN_DTYPE_f64   ? 0x7FF0000000000000
                              : dtype == TN_DTYPE_f32 ? 0x7F800000
                              : dtype == TN_DTYPE_f16 ? 0x7C00
                                                      : 0x7F80;
    const uint64_t sign = uint64_t{1} << (8 * element() - 1);
    for (const size_t i : {0u, 145u}) {
      put(image, i, infinity | infinity >> 1);
      put(image, i + 10, infinity);
      put(image, i + 20, infinity | sign);
    }
    return image;
  }
  Bytes channels(float first, float step) const {
    Bytes out(channel_bytes());
    for (size_t c = 0; c < 5; ++c) {
      const float value = first + static_cast<float>(c) * step;
      const double wide = value;
      if (dtype == TN_DTYPE_f64)
        std::memcpy(out.data() + c * sizeof wide, &wide, sizeof wide);
      else
        std::memcpy(out.data() + c * sizeof value, &value, sizeof value);
    }
    return out;
  }

  // The way back, by the y in memory or by the one that is made again of x.
  void backward(FragmentBuilder& f, bool again) const {
    const uint32_t x = image(f), dy = image(f), channel[3] = {parameter(f), parameter(f), parameter(f)};
    const uint32_t last = again ? parameter(f) : image(f), mask = given(f);
    const uint32_t y = again ? f.tensor(dtype, dims, strides) : last;
    if (again) f.node(TN_OP_batch_norm_apply, {x, channel[0], last, channel[1], channel[2]}, {y});
    f.node(TN_OP_relu_grad, {dy, y}, {mask});
    f.node(TN_OP_batch_norm_grad, {mask, x, channel[0], channel[1], channel[2]},
           {given(f), made(f), made(f)});
  }
  // What relu gives of x by these statistics.
  Bytes relu_of(tn_device* device, const std::vector<Bytes>& x_and_channels) const {
    FragmentBuilder f;
    const uint32_t x = image(f), t = f.tensor(dtype, dims, strides);
    std::vector<uint32_t> in{x};
    for (int i = 0; i < 4; ++i) in.push_back(parameter(f));
    f.node(TN_OP_batch_norm_apply, in, {t});
    f.node(TN_OP_relu, {t}, {given(f)});
    return run_all(device, f.fragment(), x_and_channels, {bytes()})[0];
  }
  // The mask, dx and the gradients of scale and bias, both ways.
  std::array<std::vector<Bytes>, 2> both(tn_device* device) const {
    const Bytes dy = images(1), slope = channels(scale, 0), bias = channels(-0.4F * scale, 0.2F * scale);
    Bytes x = images(9);
    const size_t channel = channel_bytes();
    FragmentBuilder forward, stored, again;
    const uint32_t t = forward.tensor(dtype, dims, strides);
    std::vector<uint32_t> in{image(forward)}, out{t};
    for (int i = 0; i < 4; ++i) in.push_back(parameter(forward));
    for (int i = 0; i < 4; ++i) out.push_back(made(forward));
    forward.node(TN_OP_batch_norm_train, in, out).real("epsilon", 1e-5).real("momentum", 0.9);
    forward.node(TN_OP_relu, {t}, {given(forward)});
    const auto gave = run_all(device, forward.fragment(), {x, slope, bias, bias, slope},
                              {channel, channel, channel, channel, x.size()});
    Bytes y = gave[4];
    if (odd) {
      x = with_odd(std::move(x));
      y = relu_of(device, {x, slope, bias, gave[0], gave[1]});
    }
    backward(stored, false);
    backward(again, true);
    const std::vector<size_t> sizes{x.size(), x.size(), channel, channel};
    return {run_all(device, stored.fragment(), {x, dy, slope, gave[0], gave[1], y}, sizes),
            run_all(device, again.fragment(), {x, dy, slope, gave[0], gave[1], bias}, sizes)};
  }

  static std::vector<Bytes> run_all(tn_device* device, const tn_fragment& fragment,
                                    const std::vector<Bytes>& inputs, const std::vector<size_t>& sizes) {
    const Stream stream = make_stream(device);
    const Kernel kernel = compile(device, fragment);
    std::vector<Memory> memories;
    std::vector<tn_span> bindings;
    const auto bind = [&](uint64_t size) {
      memories.push_back(allocate(device, size));
      bindings.push_back(span(memories.back(), 0, size));
    };
    for (const Bytes& input : inputs) {
      bind(input.size());
      copy(stream, bindings.back(), host_span(input.data(), input.size()));
    }
    for (const size_t size : sizes) bind(size);
    const Memory room = allocate(device, workspace_bytes(kernel));
    launch(kernel, stream, bindings, span(room, 0, workspace_bytes(kernel)));
    std::vector<Bytes> out;
    for (size_t i = 0; i < sizes.size(); ++i) {
      Bytes& one = out.emplace_back(sizes[i]);
      copy(stream, host_span(one.data(), one.size()), bindings[inputs.size() + i]);
    }
    drain(stream);
    return out;
  }
};

}  // namespace

TEST_CASE("batch norm: a channel far from zero keeps its spread") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Floats x(512);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4096 + static_cast<float>(i * i % 31) / 16;
  CHECK(batch_variance(device, x)[0] == doctest::Approx(variance_of(x)).epsilon(1e-5));
}

TEST_CASE("batch norm: a sample that is no number, or far from all others, spoils no more than itself") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  Floats x(512, 3.0F);
  for (size_t i = 0; i < x.size(); i += 2) x[i] = 5.0F;
  CHECK(batch_variance(device, x)[0] == doctest::Approx(variance_of(x)).epsilon(1e-6));
  // The first of the three samples of two images of 16 × 16: image 0, row 2, column 2.
  x[2 * 16 + 2] = 4096.0F;
  CHECK(batch_variance(device, x)[0] == doctest::Approx(variance_of(x)).epsilon(1e-5));
  x[2 * 16 + 2] = infinite;
  CHECK(std::isnan(batch_variance(device, x)[0]));
}

TEST_CASE("batch norm: with an addition and an activation it gives the bits of the three") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  std::mt19937 random(7);
  const auto halves = [&](size_t count) {
    Halves out(count);
    for (uint16_t& one : out) {
      const float value = static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 256;
      one = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
    }
    return out;
  };
  const Fused sample{.x = halves(420), .scale = halves(5), .bias = halves(5), .beside = halves(420)};
  CHECK(sample.together(device) == sample.apart(device));
}

TEST_CASE(
    "batch norm: what relu let through is found again from x, element by element, and the gradients are the "
    "same") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const Dims first{140, 28, 7, 1}, last{140, 1, 35, 5};
  for (const auto& [strides, odd] : {std::pair{first, false}, {last, false}, {first, true}, {last, true}}) {
    for (const auto& [dtype, scale] : {std::pair{TN_DTYPE_f32, 1.0F},
                                       {TN_DTYPE_f32, 1e-36F},
                                       {TN_DTYPE_f64, 1.0F},
                                       {TN_DTYPE_bf16, 0.5F},
                                       {TN_DTYPE_f16, 0.5F},
                                       {TN_DTYPE_f16, 5e-8F}}) {
      CAPTURE(dtype);
      CAPTURE(scale);
      CAPTURE(odd);
      const auto [stored, again] =
          Mask{.dtype = dtype, .strides = strides, .scale = scale, .odd = odd}.both(device);
      CHECK(stored == again);
      const Bytes& mask = stored[0];
      const size_t size = mask.size() / 420;
      size_t through = 0;
      for (auto at = mask.begin(); at != mask.end(); at += static_cast<std::ptrdiff_t>(size))
        through +=
            std::any_of(at, at + static_cast<std::ptrdiff_t>(size), [](uint8_t byte) { return byte != 0; });
      CHECK(through > 40);
      CHECK(through < 380);
    }
  }
}

TEST_CASE("pool: padding never wins, and the first greatest or the first NaN takes the gradient") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  // Windows of 2 × 2, one place apart, over two rows of three with padding all around.
  const Floats x{-3, -3, no_number, -5, -1, -1};
  FragmentBuilder forward, backward;
  slide(forward.node(TN_OP_max_pool, {forward.input(TN_DTYPE_f32, {1, 1, 2, 3})},
                     {forward.output(TN_DTYPE_f32, {1, 1, 3, 4})}),
        {2, 2}, {1, 1}, {1, 1, 1, 1});
  CHECK(same(run<float>(device, forward.fragment(), {x}, 12),
             {-3, -3, no_number, no_number, -3, -1, no_number, no_number, -5, -1, -1, -1}));
  slide(
      backward.node(TN_OP_max_pool_grad,
                    {backward.input(TN_DTYPE_f32, {1, 1, 3, 4}), backward.input(TN_DTYPE_f32, {1, 1, 2, 3})},
                    {backward.output(TN_DTYPE_f32, {1, 1, 2, 3})}),
      {2, 2}, {1, 1}, {1, 1, 1, 1});
  const Floats dy{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048};
  CHECK(run<float>(device, backward.fragment(), {dy, x}, 6) ==
        Floats{1 + 2 + 16, 0, 4 + 8 + 64 + 128, 256, 32 + 512 + 1024, 2048});
}

TEST_CASE("pool: a window on padding alone is the lowest value, or the mean of nothing") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const auto pooled = [&](uint32_t op, bool count_pad) {
    FragmentBuilder f;
    auto& node = f.node(op, {f.input(TN_DTYPE_f32, {1, 1, 1, 1})}, {f.output(TN_DTYPE_f32, {1, 1, 1, 3})});
    slide(node, {1, 1}, {1, 1}, {0, 1, 0, 1});
    if (op == TN_OP_avg_pool) node.integer("count_pad", count_pad ? 1 : 0);
    return run<float>(device, f.fragment(), {{7}}, 3);
  };
  CHECK(pooled(TN_OP_max_pool, false) == Floats{-infinite, 7, -infinite});
  CHECK(same(pooled(TN_OP_avg_pool, false), {no_number, 7, no_number}));
  CHECK(pooled(TN_OP_avg_pool, true) == Floats{0, 7, 0});
}

TEST_CASE("embedding_grad: a row that most indices name, and indices outside of the table") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  constexpr int64_t indices = 3000, rows = 300, width = 8;
  FragmentBuilder f;
  f.node(TN_OP_embedding_grad, {f.input(TN_DTYPE_i32, {3, 1000}), f.input(TN_DTYPE_f32, {3, 1000, width})},
         {f.output(TN_DTYPE_f32, {rows, width})})
      .integer("rows", rows);
  Floats named(indices), dy(indices * width), wanted(rows * width);
  for (int64_t i = 0; i < indices; ++i) {
    const int64_t row = i % 7 == 0 ? i % 2 == 0 ? -1 - i : rows + i : i % 3 == 0 ? i * 31 % rows : 258;
    named[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<int32_t>(row));
    for (int64_t d = 0; d < width; ++d) {
      const auto value = static_cast<float>(i * 5 % 17 - d);
      dy[static_cast<size_t>(i * width + d)] = value;
      if (row >= 0 && row < rows) wanted[static_cast<size_t>(row * width + d)] += value;
    }
  }
  CHECK(run<float>(device, f.fragment(), {named, dy}, wanted.size()) == wanted);
}
