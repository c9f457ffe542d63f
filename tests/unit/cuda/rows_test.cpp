// SPDX-License-Identifier: Apache-2.0
// rows_test.cpp: what softmax, losses and normalisations compute where the conformance kit does not look: infinities, labels
// of no class, sums over many rows, neighbours, and results in place.
#include "world.hpp"

#include <cmath>
#include <limits>

using namespace cuda_test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// A fragment, what its inputs hold, and room for its outputs, all `shift` bytes past where the device likes them.
class Run {
 public:
  Run(tn_device* device, uint64_t shift = 0) : device_(device), stream_(make_stream(device)), shift_(shift) {}

  template <class T>
  Run& in(const std::vector<T>& values) {
    const uint64_t bytes = values.size() * sizeof(T);
    bind(bytes);
    copy(stream_, spans_.back(), host_span(values.data(), bytes));
    drain(stream_);
    return *this;
  }
  Run& out(size_t floats) {
    bind(floats * sizeof(float));
    return *this;
  }
  // An output in the place of binding `of`.
  Run& out_in_place(size_t of) {
    spans_.push_back(spans_[of]);
    return *this;
  }
  Run& launch(FragmentBuilder& f) {
    const Kernel kernel = compile(device_, f.fragment());
    const Memory room = allocate(device_, workspace_bytes(kernel));
    tenon::test::launch(kernel, stream_, spans_, span(room, 0, workspace_bytes(kernel)));
    drain(stream_);
    return *this;
  }
  std::vector<float> read(size_t binding) {
    const auto bytes = download(stream_, spans_[binding]);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  void bind(uint64_t bytes) {
    memories_.push_back(allocate(device_, shift_ + bytes));
    spans_.push_back(span(memories_.back(), shift_, bytes));
  }

  tn_device* device_;
  Stream stream_;
  uint64_t shift_;
  std::vector<Memory> memories_{};
  std::vector<tn_span> spans_{};
};

// Whole numbers from -4 to 4, the same each time: of few of them every sum is exact.
std::vector<float> numbers(size_t count, uint32_t seed) {
  std::vector<float> out(count);
  for (float& one : out) {
    seed = seed * 1664525 + 1013904223;
    one = static_cast<float>(static_cast<int32_t>(seed >> 24) % 9 - 4);
  }
  return out;
}

void softmax(FragmentBuilder& f, uint32_t op, const std::vector<int64_t>& dims) {
  f.node(op, {f.input(TN_DTYPE_f32, dims)}, {f.output(TN_DTYPE_f32, dims)}).integer("axis", -1);
}

}  // namespace

TEST_CASE("rows: +∞ leaves nothing to the others of its row, and a row of nothing but −∞ is no number") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const std::vector<float> x{0, -infinity, -infinity, 0,         1,         infinity,
                             2, 3,         -infinity, -infinity, -infinity, -infinity};
  FragmentBuilder shares, logs;
  softmax(shares, TN_OP_softmax, {3, 4});
  softmax(logs, TN_OP_log_softmax, {3, 4});
  const std::vector<float> share = run<float>(device, shares.fragment(), {x}, 12),
                           log = run<float>(device, logs.fragment(), {x}, 12);
  CHECK(std::vector<float>(share.begin(), share.begin() + 4) == std::vector<float>{0.5F, 0, 0, 0.5F});
  CHECK(std::vector<float>(share.begin() + 6, share.begin() + 8) == std::vector<float>{0, 0});
  CHECK(share[4] == 0);
  CHECK(std::isnan(share[5]));
  CHECK(log[1] == -infinity);
  CHECK(log[4] == -infinity);
  for (size_t i = 8; i < 12; ++i) CHECK((std::isnan(share[i]) && std::isnan(log[i])));
}

TEST_CASE("rows: a label that names no class, or the ignored one, loses nothing and moves nothing") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const std::vector<float> x(5 * 3, 0.0F);
  const std::vector<int64_t> labels{1, -1, 3, 2, int64_t{1} << 32 | 1};
  FragmentBuilder forward, backward;
  const auto scores = [](FragmentBuilder& f) { return f.input(TN_DTYPE_f32, {5, 3}); };
  const auto classes = [](FragmentBuilder& f) { return f.input(TN_DTYPE_i64, {5}); };
  const auto each_row = [](FragmentBuilder& f) { return f.input(TN_DTYPE_f32, {5}); };
  const uint32_t a = scores(forward), b = classes(forward);
  forward
      .node(TN_OP_cross_entropy, {a, b},
            {forward.output(TN_DTYPE_f32, {5}), forward.output(TN_DTYPE_f32, {5})})
      .integer("ignore_index", 2);
  const uint32_t c = scores(backward), d = classes(backward), e = each_row(backward), g = each_row(backward);
  backward.node(TN_OP_cross_entropy_grad, {c, d, e, g}, {backward.output(TN_DTYPE_f32, {5, 3})})
      .integer("ignore_index", 2);
  Run losses(device);
  losses.in(x).in(labels).out(5).out(5).launch(forward);
  const std::vector<float> loss = losses.read(2), log = losses.read(3);
  CHECK(loss[0] == doctest::Approx(std::log(3.0)));
  CHECK(std::vector<float>(loss.begin() + 1, loss.end()) == std::vector<float>(4, 0.0F));
  for (const float one : log) CHECK(one == doctest::Approx(std::log(3.0)));
  Run slopes(device);
  slopes.in(x).in(labels).in(log).in(std::vector<float>(5, 3.0F)).out(15).launch(backward);
  const std::vector<float> slope = slopes.read(4);
  CHECK(slope[0] == doctest::Approx(1));
  CHECK(slope[1] == doctest::Approx(-2));
  CHECK(std::vector<float>(slope.begin() + 3, slope.end()) == std::vector<float>(12, 0.0F));
}

TEST_CASE("rows: a spread far from 0 keeps its digits") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  constexpr int64_t length = 1000;
  FragmentBuilder f;
  const uint32_t x = f.input(TN_DTYPE_f32, {1, length}), scale = f.input(TN_DTYPE_f32, {length}),
                 bias = f.input(TN_DTYPE_f32, {length});
  f.node(TN_OP_layer_norm, {x, scale, bias},
         {f.output(TN_DTYPE_f32, {1, length}), f.output(TN_DTYPE_f32, {1}), f.output(TN_DTYPE_f32, {1})})
      .integer("axes", 1)
      .real("epsilon", 0);
  std::vector<float> far(length);
  for (size_t i = 0; i < far.size(); ++i) far[i] = 65536.0F + static_cast<float>(i % 2);  // ½ about the mean
  Run one(device);
  one.in(far)
      .in(std::vector<float>(length, 2.0F))
      .in(std::vector<float>(length, 1.0F))
      .out(length)
      .out(1)
      .out(1);
  one.launch(f);
  CHECK(one.read(4)[0] == 65536.5F);
  CHECK(one.read(5)[0] == doctest::Approx(2).epsilon(1e-6));
  CHECK(one.read(3)[0] == doctest::Approx(-1).epsilon(1e-6));
  CHECK(one.read(3)[1] == doctest::Approx(3).epsilon(1e-6));
}

TEST_CASE("rows: sums over more rows than blocks are exact where they can be, wherever memory lies") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  for (const int64_t length : {3, 64, 600}) {
    const int64_t rows = length == 64 ? 20000 : 700;
    FragmentBuilder f;
    const uint32_t dy = f.input(TN_DTYPE_f32, {rows, length}), x = f.input(TN_DTYPE_f32, {rows, length}),
                   scale = f.input(TN_DTYPE_f32, {length}), mean = f.input(TN_DTYPE_f32, {rows}),
                   inverse = f.input(TN_DTYPE_f32, {rows});
    f.node(TN_OP_layer_norm_grad, {dy, x, scale, mean, inverse},
           {f.output(TN_DTYPE_f32, {rows, length}), f.output(TN_DTYPE_f32, {length}),
            f.output(TN_DTYPE_f32, {length})})
        .integer("axes", 1);
    const auto count = static_cast<size_t>(rows * length);
    const std::vector<float> a = numbers(count, 1), b = numbers(count, 2);
    std::vector<float> dscale(static_cast<size_t>(length)), dbias(static_cast<size_t>(length));
    for (size_t i = 0; i < count; ++i) {
      dscale[i % dscale.size()] += a[i] * (b[i] - 1) * 2;
      dbias[i % dbias.size()] += a[i];
    }
    for (const uint64_t shift : {0, 4}) {
      CAPTURE(length);
      CAPTURE(shift);
      Run sums(device, shift);
      sums.in(a).in(b).in(std::vector<float>(dscale.size(), 1.0F));
      sums.in(std::vector<float>(static_cast<size_t>(rows), 1.0F))
          .in(std::vector<float>(static_cast<size_t>(rows), 2.0F));
      sums.out(count).out(dscale.size()).out(dbias.size()).launch(f);
      CHECK(sums.read(6) == dscale);
      CHECK(sums.read(7) == dbias);
    }
  }
}

TEST_CASE("rows: what stands around a norm gives the bits that it gives by itself") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  const std::vector<int64_t> dims{37, 96};
  const auto norm = [](FragmentBuilder& f, uint32_t x, uint32_t scale, uint32_t y) {
    f.node(TN_OP_rms_norm, {x, scale}, {y, f.output(TN_DTYPE_f32, {37})})
        .integer("axes", 1)
        .real("epsilon", 1e-6);
  };
  FragmentBuilder all, sum, alone, after;
  {
    const uint32_t a = all.input(TN_DTYPE_f32, dims), b = all.input(TN_DTYPE_f32, dims),
                   scale = all.input(TN_DTYPE_f32, {96}), y = all.output(TN_DTYPE_f32, dims),
                   c = all.output(TN_DTYPE_f32, dims), d = all.tensor(TN_DTYPE_f32, dims);
    all.node(TN_OP_add, {a, b}, {c});
    norm(all, c, scale, d);
    all.node(TN_OP_silu, {d}, {y});
  }
  const uint32_t a = sum.input(TN_DTYPE_f32, dims), b = sum.input(TN_DTYPE_f32, dims);
  sum.node(TN_OP_add, {a, b}, {sum.output(TN_DTYPE_f32, dims)});
  const uint32_t x = alone.input(TN_DTYPE_f32, dims), scale = alone.input(TN_DTYPE_f32, {96});
  norm(alone, x, scale, alone.output(TN_DTYPE_f32, dims));
  after.node(TN_OP_silu, {after.input(TN_DTYPE_f32, dims)}, {after.output(TN_DTYPE_f32, dims)});

  std::vector<float> p = numbers(37 * 96, 3), q = numbers(37 * 96, 4), s = numbers(96, 5);
  for (float& one : p) one *= 0.37F;
  Run together(device), added(device), normed(device), last(device);
  together.in(p).in(q).in(s).out(p.size()).out(p.size()).out(37).launch(all);
  added.in(p).in(q).out(p.size()).launch(sum);
  normed.in(added.read(2)).in(s).out(p.size()).out(37).launch(alone);
  last.in(normed.read(2)).out(p.size()).launch(after);
  CHECK(together.read(4) == added.read(2));
  CHECK(together.read(5) == normed.read(3));
  CHECK(together.read(3) == last.read(1));
}

TEST_CASE("rows: a result takes the place of the rows that it is made of") {
  CUDA_DRIVER("");
  const World world;
  const Device device = open_device();
  for (const int64_t length : {100, 40000}) {  // kept, and read again
    const int64_t rows = length == 100 ? 9 : 200;
    FragmentBuilder apart, within;
    softmax(apart, TN_OP_softmax, {rows, length});
    softmax(within, TN_OP_softmax, {rows, length});
    within.alias(0, 0);
    CHECK(supports(device, within.fragment()).alias_mask == 1);
    const auto count = static_cast<size_t>(rows * length);
    const std::vector<float> x = numbers(count, 6);
    Run two(device), one(device);
    two.in(x).out(count).launch(apart);
    one.in(x).out_in_place(0).launch(within);
    CAPTURE(length);
    CHECK(one.read(0) == two.read(1));
  }
}
