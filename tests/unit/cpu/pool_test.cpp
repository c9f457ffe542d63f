// SPDX-License-Identifier: Apache-2.0
// pool_test.cpp: windows of every form over images in every order of memory, bit for bit what a loop over them gives.
//
// Invariant: halves and f32 are summed in f32, f64 in f64: by a window in the order of its taps, by a place in that of its windows.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

struct Form {
  Dims x, kernel, stride, pad;
  bool count_pad = false;

  int64_t windows(size_t d) const { return (x[2 + d] + pad[d] + pad[2 + d] - kernel[d]) / stride[d] + 1; }
  Dims y() const { return {x[0], x[1], windows(0), windows(1)}; }
};

int64_t between(Random& random, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
}

Form random_form(Random& random) {
  Form out;
  // Channels around a vector, a block and one alone; a few large windows, which have more taps than channels are taken by.
  const int64_t channels[] = {1, 3, 16, 17, 64, 100};
  const int64_t most = random() % 8 == 0 ? 11 : 4;
  out.x = {between(random, 1, 3), channels[random() % 6], between(random, 1, 20), between(random, 1, 20)};
  for (size_t d = 0; d < 2; ++d) {
    out.kernel.push_back(between(random, 1, std::min(most, out.x[2 + d])));
    out.stride.push_back(between(random, 1, 4));
  }
  for (size_t i = 0; i < 4; ++i) out.pad.push_back(between(random, 0, out.kernel[i % 2] - 1));
  out.count_pad = random() % 2 == 0;
  return out;
}

// NCHW, NHWC, or neither.
Dims strides_of(uint64_t form, const Dims& d) {
  if (form == 0) return {};
  if (form == 1) return {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]};
  return {d[1] * d[2] * (2 * d[3] + 1), d[2] * (2 * d[3] + 1), 2 * d[3] + 1, 2};
}

// Calls f(place of the image) for each tap of window `at` that sees one.
template <class F>
void each_tap(const Form& form, const Dims& at, F&& f) {
  for_each(form.kernel, [&](const Dims& tap) {
    const int64_t h = at[2] * form.stride[0] - form.pad[0] + tap[0],
                  w = at[3] * form.stride[1] - form.pad[1] + tap[1];
    if (h >= 0 && h < form.x[2] && w >= 0 && w < form.x[3]) f(Dims{at[0], at[1], h, w});
  });
}

template <class S>
struct Reference {
  const Form& form;

  std::optional<Dims> greatest(const Tensor& x, const Dims& at) const {
    std::optional<Dims> best;
    each_tap(form, at, [&](const Dims& place) {
      if (!best || x.at(place) > x.at(*best) || (std::isnan(x.at(place)) && !std::isnan(x.at(*best))))
        best = place;
    });
    return best;
  }
  S share(const Dims& at) const {
    int64_t seen = 0;
    each_tap(form, at, [&](const Dims&) { ++seen; });
    return static_cast<S>(form.count_pad ? form.kernel[0] * form.kernel[1] : seen);
  }
  Number mean(const Tensor& x, const Dims& at) const {
    S sum = 0;
    each_tap(form, at, [&](const Dims& place) { sum += static_cast<S>(x.at(place)); });
    return static_cast<Number>(sum / share(at));
  }
  // Of a place, from all windows in their order.
  Tensor given(const Tensor& dy, const Tensor* seen) const {
    Tensor sums(std::is_same_v<S, double> ? TN_DTYPE_f64 : TN_DTYPE_f32, form.x);
    std::ranges::fill(sums.bytes, std::byte{0});
    const auto give = [&](const Dims& place, S part) {
      sums.set(place, static_cast<Number>(static_cast<S>(sums.at(place)) + part));
    };
    for_each(dy.dims, [&](const Dims& at) {
      const S part = static_cast<S>(dy.at(at));
      if (seen == nullptr) {
        const S each = part / share(at);
        each_tap(form, at, [&](const Dims& place) { give(place, each); });
      } else if (const std::optional<Dims> best = greatest(*seen, at)) {
        give(*best, part);
      }
    });
    return sums;
  }
};

void run(Bench& bench, const Form& form, uint32_t op, const std::vector<const Tensor*>& inputs,
         Tensor& result) {
  FragmentBuilder f;
  std::vector<uint32_t> in;
  for (const Tensor* one : inputs) in.push_back(f.input(one->dtype, one->dims, one->strides));
  auto&& node = f.node(op, in, {f.output(result.dtype, result.dims, result.strides)});
  const bool mean = op == TN_OP_avg_pool || op == TN_OP_avg_pool_grad;
  if (mean) node.integer("count_pad", form.count_pad ? 1 : 0);
  if (op == TN_OP_avg_pool_grad) node.integers("input_shape", form.x);
  node.integers("kernel", form.kernel).integers("pad", form.pad).integers("stride", form.stride);
  bench.run(compile(bench.device, f.fragment()), inputs, {&result});
}

template <class S>
void check(Bench& bench, const Form& form, const Tensor& x, const Tensor& dy, Tensor y, Tensor dx) {
  const Reference<S> reference{form};
  const auto same = [](Number a, Number b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  const auto agrees = [&](const char* what, const Tensor& made,
                          const std::function<Number(const Dims&)>& expected) {
    uint64_t wrong = 0;
    for_each(made.dims, [&](const Dims& at) {
      const Number wanted = expected(at);
      wrong += !same(made.at(at), std::isfinite(wanted) ? rounded(wanted, made.dtype) : wanted);
    });
    CHECK_MESSAGE(wrong == 0, what, ": ", wrong, " elements are wrong");
  };
  run(bench, form, TN_OP_max_pool, {&x}, y);
  agrees("max_pool", y, [&](const Dims& at) {
    const auto best = reference.greatest(x, at);
    return best ? x.at(*best) : -std::numeric_limits<Number>::infinity();
  });
  run(bench, form, TN_OP_avg_pool, {&x}, y);
  agrees("avg_pool", y, [&](const Dims& at) { return reference.mean(x, at); });
  run(bench, form, TN_OP_max_pool_grad, {&dy, &x}, dx);
  const Tensor to_greatest = reference.given(dy, &x);
  agrees("max_pool_grad", dx, [&](const Dims& at) { return to_greatest.at(at); });
  run(bench, form, TN_OP_avg_pool_grad, {&dy}, dx);
  const Tensor to_all = reference.given(dy, nullptr);
  agrees("avg_pool_grad", dx, [&](const Dims& at) { return to_all.at(at); });
}

}  // namespace

TEST_CASE(
    "pool: windows of every form over images in every order of memory give what a loop over them gives") {
  Random random(tenon::test::seed());
  Bench bench;
  const int rounds = tenon::test::full_numbers_or("pools", 60, 1000);
  for (int round = 0; round < rounds; ++round) {
    const Form form = random_form(random);
    const uint32_t dtypes[] = {TN_DTYPE_f32, TN_DTYPE_bf16, TN_DTYPE_f16, TN_DTYPE_f64};
    const uint32_t dtype = dtypes[random() % 4];
    const uint64_t lies = random() % 4;  // of all, or of each its own
    const auto made = [&](const Dims& dims) {
      Tensor out(dtype, dims, strides_of(lies < 3 ? lies : random() % 3, dims));
      for_each(dims, [&](const Dims& at) {
        out.set(at, rounded(static_cast<Number>(between(random, -40, 40)) / 8, dtype));  // with equals
      });
      return out;
    };
    Tensor x = made(form.x);
    if (random() % 3 == 0) {
      const auto corner = [&](Number value) {
        x.set({0, 0, between(random, 0, form.x[2] - 1), between(random, 0, form.x[3] - 1)}, value);
      };
      corner(std::numeric_limits<Number>::quiet_NaN());
      corner(-std::numeric_limits<Number>::infinity());
    }
    CAPTURE(round);
    const Tensor dy = made(form.y()), y = made(form.y()), dx = made(form.x);
    dtype == TN_DTYPE_f64 ? check<double>(bench, form, x, dy, y, dx)
                          : check<float>(bench, form, x, dy, y, dx);
  }
}

TEST_CASE("pool: the first of equals takes the gradient, a NaN wins, and channels may be last") {
  Bench bench;
  for (const bool last : {false, true}) {
    Tensor x(TN_DTYPE_f32, {1, 2, 2, 4}, last ? Dims{16, 1, 8, 2} : Dims{}),
        dy(TN_DTYPE_f32, {1, 2, 1, 2}, last ? Dims{4, 1, 4, 2} : Dims{}), y = dy, dx = x;
    const Number nan = std::numeric_limits<Number>::quiet_NaN();
    const std::vector<Number> values = {3, 3, 1, nan, 3, 2, 7, nan, -5, -4, 0, 0, -4, -6, 0, 0};
    size_t i = 0;
    for_each(x.dims, [&](const Dims& at) { x.set(at, values[i++]); });
    for_each(dy.dims, [&](const Dims& at) { dy.set(at, static_cast<Number>(10 * (at[1] + 1) + at[3])); });
    const Form form{.x = x.dims, .kernel = {2, 2}, .stride = {2, 2}, .pad = {0, 0, 0, 0}};
    run(bench, form, TN_OP_max_pool, {&x}, y);
    CHECK(y.at({0, 0, 0, 0}) == 3);
    CHECK(std::isnan(y.at({0, 0, 0, 1})));
    CHECK(y.at({0, 1, 0, 0}) == -4);
    run(bench, form, TN_OP_max_pool_grad, {&dy, &x}, dx);
    const std::vector<Number> expected = {10, 0, 0, 11, 0, 0, 0, 0, 0, 20, 21, 0, 0, 0, 0, 0};
    i = 0;
    for_each(dx.dims, [&](const Dims& at) { CHECK(dx.at(at) == expected[i++]); });
  }
}
