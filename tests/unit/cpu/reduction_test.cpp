// SPDX-License-Identifier: Apache-2.0
// reduction_test.cpp: sums, means, products, extremes and argmax on every dtype, over any axes of any strides.
//
// Invariant: the reference folds in long double or modulo 2^64, one element after another.
#include "tensors.hpp"

using namespace cpu_test;

namespace {

struct Case {
  Dims dims, strides;
  std::vector<int64_t> axes;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{1000}, {}, {0}},
      {{37, 41}, {}, {1}},
      {{37, 41}, {}, {0}},
      {{37, 41}, {}, {0, 1}},
      {{37, 41}, {}, {}},
      {{}, {}, {}},
      {{5, 1200}, {}, {-1}},
      {{3, 700, 9}, {}, {1}},
      {{4, 5, 6}, {1, 4, 20}, {0, 2}},
      {{4, 5, 6}, {0, 12, 2}, {1}},
      {{2, 3, 1, 4}, {}, {2}},
      {{3, 0, 2}, {}, {1}},
      {{0, 3}, {}, {1}},
  };
  return all;
}

Dims result_dims(const Case& c, bool keep) {
  Dims out;
  for (int64_t i = 0; i < static_cast<int64_t>(c.dims.size()); ++i) {
    bool reduced = false;
    for (const int64_t axis : c.axes)
      reduced = reduced || (axis < 0 ? axis + static_cast<int64_t>(c.dims.size()) : axis) == i;
    if (!reduced)
      out.push_back(c.dims[static_cast<size_t>(i)]);
    else if (keep)
      out.push_back(1);
  }
  return out;
}

// What each output element is folded from, in logical order: for every element in row-major order, the operand's.
std::vector<std::vector<Number>> folded(const Tensor& x, const Case& c) {
  const auto rank = static_cast<int64_t>(c.dims.size());
  std::vector<bool> reduced(c.dims.size(), false);
  for (const int64_t axis : c.axes) reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  size_t count = 1;
  for (const int64_t dim : result_dims(c, false)) count *= static_cast<size_t>(dim);
  std::vector<std::vector<Number>> out(count);
  for_each(x.dims, [&](const Dims& at) {
    size_t place = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      if (!reduced[i]) place = place * static_cast<size_t>(c.dims[i]) + static_cast<size_t>(at[i]);
    }
    out[place].push_back(x.at(at));
  });
  return out;
}

Number nothing(uint32_t op, uint32_t dtype) {
  const Number inf = std::numeric_limits<Number>::infinity();
  switch (op) {
    case TN_OP_mean:
      return std::numeric_limits<Number>::quiet_NaN();
    case TN_OP_reduce_max:
      return is_float(dtype) ? -inf : rounded(-1e30L, dtype);
    case TN_OP_reduce_min:
      return is_float(dtype) ? inf : rounded(1e30L, dtype);
    case TN_OP_reduce_prod:
      return 1;
    default:
      return 0;
  }
}

Number reference(uint32_t op, uint32_t dtype, const std::vector<Number>& x) {
  if (x.empty()) return nothing(op, dtype);
  Number best = x[0], sum = 0, product = 1, index = 0;
  uint64_t sum_bits = 0, product_bits = 1;
  for (size_t i = 0; i < x.size(); ++i) {
    sum += x[i];
    product *= x[i];
    sum_bits += is_float(dtype) ? 0 : integer_bits(x[i]);
    product_bits *= is_float(dtype) ? 1 : integer_bits(x[i]);
    const bool better = op == TN_OP_reduce_min ? x[i] < best : x[i] > best;
    if (!std::isnan(best) && (std::isnan(x[i]) || better)) {
      best = x[i];
      index = static_cast<Number>(i);
    }
  }
  switch (op) {
    case TN_OP_sum:
      return is_float(dtype) ? sum : wrapped(sum_bits, dtype);
    case TN_OP_reduce_prod:
      return is_float(dtype) ? product : wrapped(product_bits, dtype);
    case TN_OP_mean:
      return sum / static_cast<Number>(x.size());
    case TN_OP_argmax:
      return index;
    default:
      return best;
  }
}

// What summing n terms in f64 may lose (n units of Σ|x|), and one rounding to the type.
bool good(uint32_t op, uint32_t dtype, Number got, Number expected, const std::vector<Number>& x) {
  const bool exact = !is_float(dtype) || (op != TN_OP_sum && op != TN_OP_mean && op != TN_OP_reduce_prod);
  if (exact) return same(got, expected);
  Number size = 0;
  for (const Number value : x) size += std::fabs(value);
  if (op == TN_OP_mean && !x.empty()) size /= static_cast<Number>(x.size());
  if (op == TN_OP_reduce_prod) size = std::fabs(expected);
  const Number slack = size * static_cast<Number>(x.size()) * 0x1p-53L;
  return close(got, expected, dtype, 0.5001L, std::isfinite(slack) ? slack : 0);
}

void check_case(Bench& bench, uint32_t op, uint32_t dtype, const Case& c, bool keep, Random& random) {
  const uint32_t result = op == TN_OP_argmax ? static_cast<uint32_t>(TN_DTYPE_i64) : dtype;
  const Dims dims = result_dims(c, keep);
  FragmentBuilder f(label(op, dtype, c.dims));
  const uint32_t in = f.input(dtype, c.dims, c.strides), out = f.output(result, dims);
  f.node(op, {in}, {out}).integers("axes", c.axes).integer("keepdims", keep);
  Tensor x(dtype, c.dims, c.strides), y(result, dims);
  // Products stay finite and sums readable without corners; extremes want them.
  const bool corners = op != TN_OP_reduce_prod && op != TN_OP_sum && op != TN_OP_mean;
  randomize(x, random, corners);
  if (op == TN_OP_reduce_prod && is_float(dtype)) {
    for_each(c.dims, [&](const Dims& at) { x.set(at, rounded(1 + x.at(at) / 1000, dtype)); });
  }
  const Kernel kernel = compile(bench.device, f.fragment());
  REQUIRE(std::string(info(kernel).engine) == "reduce");
  bench.run(kernel, {&x}, {&y});
  const std::vector<std::vector<Number>> folds = folded(x, c);
  size_t i = 0;
  for_each(dims, [&](const Dims& at) {
    const std::vector<Number>& elements = folds[i++];
    const Number expected = reference(op, dtype, elements), got = y.at(at);
    if (!good(op, dtype, got, expected, elements)) {
      FAIL_CHECK(label(op, dtype, c.dims) << " over " << elements.size() << " elements gives " << double(got)
                                          << ", expected " << double(expected));
    }
  });
}

}  // namespace

TEST_CASE("reduction: every op, dtype, shape and set of axes") {
  Random random(tenon::test::seed());
  Bench bench;
  for (const uint32_t op :
       {TN_OP_sum, TN_OP_mean, TN_OP_reduce_max, TN_OP_reduce_min, TN_OP_reduce_prod, TN_OP_argmax}) {
    for (const uint32_t dtype : all_dtypes) {
      if (dtype == TN_DTYPE_bool || (op == TN_OP_mean && !is_float(dtype))) continue;
      for (const Case& c : cases()) {
        if (op == TN_OP_argmax && c.axes.size() != 1) continue;
        check_case(bench, op, dtype, c, false, random);
        check_case(bench, op, dtype, c, true, random);
      }
    }
  }
}

TEST_CASE("reduction: a long sum is cut the same way on every run") {
  Bench bench;
  Random random(tenon::test::seed());
  const Dims dims = {3, 400'000};
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{1}, {0, 1}}) {
    FragmentBuilder f;
    const Case c{dims, {}, axes};
    const uint32_t in = f.input(TN_DTYPE_f32, dims), out = f.output(TN_DTYPE_f32, result_dims(c, false));
    f.node(TN_OP_sum, {in}, {out}).integers("axes", axes).integer("keepdims", 0);
    Tensor x(TN_DTYPE_f32, dims), y(TN_DTYPE_f32, result_dims(c, false));
    randomize(x, random, false);
    const Kernel kernel = compile(bench.device, f.fragment());
    CHECK(info(kernel).workspace_bytes > 0);
    bench.run(kernel, {&x}, {&y});
    const std::vector<std::byte> first = y.bytes;
    for (int i = 0; i < 5; ++i) {
      bench.run(kernel, {&x}, {&y});
      CHECK(y.bytes == first);
    }
    size_t place = 0;
    for (const std::vector<Number>& elements : folded(x, c)) {
      const Number found = get(y.bytes.data() + place++ * sizeof(float), TN_DTYPE_f32);
      CHECK(good(TN_OP_sum, TN_DTYPE_f32, found, reference(TN_OP_sum, TN_DTYPE_f32, elements), elements));
    }
  }
}

TEST_CASE("reduction: columns of a tall matrix are summed in pieces") {
  Bench bench;
  Random random(tenon::test::seed());
  const Case c{{20'000, 33}, {}, {0}};
  FragmentBuilder f;
  const uint32_t in = f.input(TN_DTYPE_f32, c.dims), out = f.output(TN_DTYPE_f32, {33});
  f.node(TN_OP_sum, {in}, {out}).integers("axes", c.axes).integer("keepdims", 0);
  Tensor x(TN_DTYPE_f32, c.dims), y(TN_DTYPE_f32, {33});
  randomize(x, random, false);
  bench.run(compile(bench.device, f.fragment()), {&x}, {&y});
  for (int64_t j = 0; j < 33; ++j) {
    Number sum = 0;
    for (int64_t i = 0; i < c.dims[0]; ++i) sum += x.at({i, j});
    CHECK(close(y.at({j}), sum, TN_DTYPE_f32, 1));
  }
}

TEST_CASE("reduction: an axis outside the rank, or named twice, is the fragment's mistake") {
  Bench bench;
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {-3}, {0, 0}, {1, -1}}) {
    FragmentBuilder f;
    const uint32_t in = f.input(TN_DTYPE_f32, {2, 3}), out = f.output(TN_DTYPE_f32, {});
    f.node(TN_OP_sum, {in}, {out}).integers("axes", axes).integer("keepdims", 0);
    tn_support support{};
    support.size = sizeof support;
    const Outcome asked = outcome_of(
        [&](tn_error* e) { return plugin().kernel->supports(bench.device, &f.fragment(), &support, e); });
    CHECK(asked.code == TN_INVALID);
    CHECK(asked.says("axis"));
  }
}
